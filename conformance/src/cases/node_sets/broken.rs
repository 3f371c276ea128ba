//! Uploads that are not whole, or that break the contract: nothing of them is applied.

use futures::StreamExt as _;
use outrigger_api::v1::{ErrorReason, Node, SyncNodeSetRequest};
use tokio::time::timeout;

use super::{held, nodes, not_held, sync};
use crate::{
    case::{Check, check},
    subject::{Subject, commit},
    verdict::{self, Verdict, failed},
};

/// A revision that no other case applies, not even to another set.
const NEVER: &str = "never";

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("NDS-03", cancelled),
        check("NDS-04", no_commit),
        check("NDS-07", wrong_node_count),
        check("NDS-20", wrong_change_count),
        check("NDS-21", name_twice),
        check("NDS-22", removal_of_none),
        check("NDS-23", no_begin),
        check("NDS-24", no_parts),
    ]
}

/// Sends an upload that must be refused.
async fn refused(subject: &Subject, upload: Vec<SyncNodeSetRequest>, described: &str) -> Verdict {
    let expected = format!("{described} is INVALID_REQUEST");
    let synced = sync(&subject.client, upload).await;
    let applied = |revision| format!("it is applied as {revision:?}");
    verdict::refused(synced, &[ErrorReason::InvalidRequest], expected, applied)
}

async fn cancelled(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(3), subject.name());
    subject.sync_as(&set, "a", &nodes[..2]).await?;
    let upload = subject.upload(&set, "", NEVER, 3, &[&nodes], &[]);
    let parts = upload.len() - 1;
    let without_commit = futures::stream::iter(upload.into_iter().take(parts));
    // It never ends: the call is dropped before its commit.
    let parts = without_commit.chain(futures::stream::pending());
    let call = subject.client.sync_node_set(parts);
    let ended = timeout(std::time::Duration::from_millis(200), call).await;
    if let Ok(Ok(answer)) = ended {
        return Err(failed(
            "an upload without its commit is not answered",
            format!("it is applied as {:?}", answer.revision),
        ));
    }
    // The provider handles the reset stream a moment later; the set must not appear then.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    not_held(subject, &set, NEVER).await?;
    held(subject, &set, "a", 2).await
}

async fn no_commit(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(3), subject.name());
    let mut upload = subject.upload(&set, "", NEVER, 3, &[&nodes], &[]);
    upload.pop();
    refused(subject, upload, "an upload without a commit").await?;
    not_held(subject, &set, NEVER).await
}

async fn wrong_node_count(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(3), subject.name());
    subject.sync_as(&set, "a", &nodes[..2]).await?;
    let upload = subject.upload(&set, "", NEVER, 4, &[&nodes], &[]);
    refused(
        subject,
        upload,
        "an upload of 3 nodes with a node_count of 4",
    )
    .await?;
    not_held(subject, &set, NEVER).await?;
    held(subject, &set, "a", 2).await
}

async fn wrong_change_count(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(3), subject.name());
    subject.sync_as(&set, "a", &nodes).await?;
    let mut upload = subject.upload(&set, "", NEVER, 3, &[&nodes], &[]);
    // A chunk of changed nodes is lost.
    upload.pop();
    upload.push(commit(4));
    let described = "an upload of 3 changes with a change_count of 4";
    refused(subject, upload, described).await?;
    not_held(subject, &set, NEVER).await?;
    held(subject, &set, "a", 3).await
}

async fn name_twice(subject: &Subject) -> Verdict {
    let set = subject.name();
    let node = nodes(1);
    let twice: [&[Node]; 2] = [&node, &node];
    let upload = subject.upload(&set, "", NEVER, 1, &twice, &[]);
    refused(subject, upload, "an upload with a name twice").await?;
    not_held(subject, &set, NEVER).await
}

async fn removal_of_none(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(2), subject.name());
    subject.sync_as(&set, "a", &nodes).await?;
    let upload = subject.upload(&set, "a", NEVER, 2, &[], &["conformance-not-there"]);
    refused(subject, upload, "a removal of a node that is not there").await?;
    not_held(subject, &set, NEVER).await
}

async fn no_begin(subject: &Subject) -> Verdict {
    let set = subject.name();
    let mut upload = subject.upload(&set, "", NEVER, 2, &[&nodes(2)], &[]);
    upload.remove(0);
    refused(subject, upload, "an upload without begin").await
}

async fn no_parts(subject: &Subject) -> Verdict {
    refused(subject, Vec::new(), "an upload without parts").await
}

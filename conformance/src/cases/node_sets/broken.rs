//! Uploads that are not whole, or that break the contract: nothing of them is applied.

use futures::{StreamExt as _, stream};
use outrigger_api::v1::{ErrorReason, SyncNodeSetRequest};
use tokio::time::{sleep, timeout};

use super::{Duration, held, nodes, not_held};
use crate::{
    case::{Check, check},
    subject::{Subject, upload},
    verdict::{self, Verdict, failed},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("NDS-03", cancelled),
        check("NDS-04", no_complete),
        check("NDS-07", wrong_node_count),
        check("NDS-20", no_revision),
        check("NDS-21", name_twice),
        check("NDS-22", no_messages),
    ]
}

/// Sends an upload that must be refused.
async fn refused(subject: &Subject, upload: Vec<SyncNodeSetRequest>, described: &str) -> Verdict {
    let expected = format!("{described} is INVALID_REQUEST");
    let synced = subject.client.sync_node_set(stream::iter(upload)).await;
    let applied = |answer| format!("it is applied: {answer:?}");
    verdict::refused(synced, &[ErrorReason::InvalidRequest], expected, applied)
}

/// An upload of three nodes in as many messages.
fn three(subject: &Subject, revision: &str) -> Vec<SyncNodeSetRequest> {
    let nodes = nodes(3);
    let messages: Vec<_> = nodes.chunks(1).collect();
    upload(&subject.client.context(), revision, &messages)
}

async fn cancelled(subject: &Subject) -> Verdict {
    let nodes = nodes(2);
    // Both are held, unless the part of a third one is applied.
    let before = [subject.name(), subject.name()];
    for revision in &before {
        subject.sync(revision, &[&nodes]).await?;
    }
    let mut upload = three(subject, "");
    upload.pop();
    // It never ends: the call is dropped before its last message.
    let messages = stream::iter(upload).chain(stream::pending());
    let call = subject.client.sync_node_set(messages);
    if let Ok(Ok(answer)) = timeout(Duration::from_millis(200), call).await {
        return Err(failed(
            "an upload without its last message is not answered",
            format!("it is applied as {:?}", answer.revision),
        ));
    }
    // The provider handles the reset stream a moment later; the set must not appear then.
    sleep(Duration::from_millis(200)).await;
    for revision in &before {
        held(subject, revision, &nodes).await?;
    }
    Ok(())
}

async fn no_complete(subject: &Subject) -> Verdict {
    let refused_one = subject.name();
    let mut upload = three(subject, &refused_one);
    if let Some(last) = upload.last_mut() {
        last.complete = false;
    }
    refused(subject, upload, "an upload without complete").await?;
    not_held(subject, &refused_one).await
}

async fn wrong_node_count(subject: &Subject) -> Verdict {
    let (nodes, before, refused_one) = (nodes(2), subject.name(), subject.name());
    subject.sync(&before, &[&nodes]).await?;
    let mut upload = three(subject, &refused_one);
    // A message is lost.
    upload.remove(1);
    let described = "an upload of 2 nodes with a node_count of 3";
    refused(subject, upload, described).await?;
    not_held(subject, &refused_one).await?;
    held(subject, &before, &nodes).await
}

async fn no_revision(subject: &Subject) -> Verdict {
    refused(subject, three(subject, ""), "an upload without a revision").await
}

async fn name_twice(subject: &Subject) -> Verdict {
    let refused_one = subject.name();
    let mut upload = three(subject, &refused_one);
    let first = upload[0].nodes.clone();
    upload[1].nodes = first;
    refused(subject, upload, "an upload with a name twice").await?;
    not_held(subject, &refused_one).await
}

async fn no_messages(subject: &Subject) -> Verdict {
    refused(subject, Vec::new(), "an upload without messages").await
}

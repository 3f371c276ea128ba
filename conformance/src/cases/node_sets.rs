//! `NodeSetsService`. An empty delta on a revision shows whether it is held, and with how many nodes; without deltas a
//! call that names it shows whether it is held.

mod broken;

use std::time::Duration;

use futures::stream;
use outrigger_api::v1::{
    ErrorReason, LoadBalancerDisposition as Disposition, Node, NodeAddress, NodeSetRef,
    NodeTargets, SyncNodeSetRequest, node_targets::Targets,
};
use tokio::time::Instant;

use crate::{
    call_error::CallError,
    capability::Capability::{LoadBalancers, NodeSetsDeltas},
    case::{Check, check},
    client::Client,
    subject::{Subject, describe},
    verdict::{Required as _, Verdict, expect, failed, refused, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        check("NDS-01", chunks),
        check("NDS-02", delta),
        check("NDS-05", unknown_revision),
        check("NDS-06", previous),
        check("NDS-08", restart),
        check("NDS-09", large),
        check("NDS-10", again),
        check("NDS-11", empty),
        check("NDS-12", several),
        check("NDS-13", echo),
        check("NDS-14", separate),
    ];
    checks.extend(broken::checks());
    checks
}

/// Nodes that no instance has: a set is held whatever its nodes are.
fn nodes(count: usize) -> Vec<Node> {
    let node = |index: usize| Node {
        name: format!("conformance-node-{index}"),
        uid: format!("uid-{index}"),
        addresses: vec![NodeAddress {
            r#type: "InternalIP".to_owned(),
            address: format!("10.{}.{}.{}", index >> 16, index >> 8 & 255, index & 255),
        }],
        ready: "True".to_owned(),
        ..Node::default()
    };
    (0..count).map(node).collect()
}

async fn sync(client: &Client, upload: Vec<SyncNodeSetRequest>) -> Result<String, CallError> {
    let answer = client.sync_node_set(stream::iter(upload)).await?;
    Ok(answer.revision)
}

impl Subject {
    /// A snapshot under a revision of the caller's choice.
    async fn sync_as(
        &self,
        set: &str,
        revision: &str,
        nodes: &[Node],
    ) -> Result<String, CallError> {
        let upload = self.upload(set, "", revision, nodes.len(), &[nodes], &[]);
        sync(&self.client, upload).await
    }

    /// True if a revision is held with so many nodes.
    async fn is_held(&self, set: &str, revision: &str, count: usize) -> Verdict<bool> {
        let (answered, unknown) = if self.declares(NodeSetsDeltas) {
            let upload = self.upload(set, revision, revision, count, &[], &[]);
            let answered = sync(&self.client, upload).await.map(drop);
            (answered, ErrorReason::NodeSetBaseMismatch)
        } else if self.declares(LoadBalancers) {
            let answered = self.get(&self.service(), Some(named(set, revision))).await;
            (answered.map(drop), ErrorReason::NodeSetUnknown)
        } else {
            let reason = "neither NodeSetsCapability.deltas nor load balancers are declared: nothing shows what is held";
            return Err(skipped(reason));
        };
        match answered {
            Ok(()) => Ok(true),
            Err(error) if error.is(unknown) => Ok(false),
            Err(error) => {
                let expected = format!(
                    "the revision {revision:?} of {set:?} is held with {count} nodes, or not known"
                );
                Err(failed(expected, error))
            }
        }
    }
}

/// A revision as targets.
fn named(set: &str, revision: &str) -> NodeTargets {
    let reference = NodeSetRef {
        set_id: set.to_owned(),
        revision: revision.to_owned(),
    };
    NodeTargets {
        targets: Some(Targets::Ref(reference)),
    }
}

/// Fails unless the revision is held with so many nodes.
async fn held(subject: &Subject, set: &str, revision: &str, count: usize) -> Verdict {
    let held = subject.is_held(set, revision, count).await?;
    let expected = format!("the revision {revision:?} of {set:?} is held with {count} nodes");
    expect(held, expected, "it is not known")
}

/// Fails unless the revision is not held.
async fn not_held(subject: &Subject, set: &str, revision: &str) -> Verdict {
    let held = subject.is_held(set, revision, 0).await?;
    let expected = format!("the revision {revision:?}, which was not applied, is not known");
    expect(!held, expected, "it is held")
}

async fn chunks(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(50), subject.name());
    subject.sync_as(&set, "one", &nodes).await?;
    held(subject, &set, "one", 50).await?;
    let chunks: Vec<_> = nodes.chunks(1).collect();
    let upload = subject.upload(&set, "", "fifty", 50, &chunks, &[]);
    sync(&subject.client, upload).await?;
    held(subject, &set, "fifty", 50).await
}

async fn delta(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(5), subject.name());
    subject.sync_as(&set, "a", &nodes[..4]).await?;
    let removed = &*nodes[0].name;
    let upload = subject.upload(&set, "a", "b", 4, &[&nodes[4..]], &[removed]);
    sync(&subject.client, upload).await?;
    held(subject, &set, "b", 4).await?;
    not_held(subject, &set, "never-synced").await
}

async fn unknown_revision(subject: &Subject) -> Verdict {
    if !subject.declares(LoadBalancers) {
        return Err(skipped(
            "no call names targets: Capabilities.load_balancers is not declared",
        ));
    }
    let service = subject.service();
    let unknown = Some(named(&subject.name(), "never-synced"));
    let expected = "an Ensure that names a revision that is not held is NODE_SET_UNKNOWN";
    let answered = subject.ensure_once(&service, unknown).await;
    let reasons = [ErrorReason::NodeSetUnknown];
    refused(answered, &reasons, expected, |answer| describe(&answer))?;
    subject.get_is(&service, Disposition::Absent).await?;
    subject.ensure_all(&service).await?;
    Ok(())
}

async fn previous(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(3), subject.name());
    subject.sync_as(&set, "a", &nodes[..2]).await?;
    subject.sync_as(&set, "b", &nodes).await?;
    // This makes it the latest again, as the controller's upserts do.
    held(subject, &set, "a", 2).await?;
    held(subject, &set, "b", 3).await
}

async fn restart(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(3), subject.name());
    subject.sync_as(&set, "a", &nodes).await?;
    subject.restart().await?;
    let subject = &subject.connect().await?;
    // Held or not: any other answer is a failure.
    subject.is_held(&set, "a", 3).await?;
    subject.sync_as(&set, "a", &nodes).await?;
    held(subject, &set, "a", 3).await
}

async fn large(subject: &Subject) -> Verdict {
    let (nodes, set) = (nodes(5_000), subject.name());
    let chunks: Vec<_> = nodes.chunks(500).collect();
    let upload = subject.upload(&set, "", "a", nodes.len(), &chunks, &[]);
    let began = Instant::now();
    sync(&subject.client, upload).await?;
    let snapshot = began.elapsed();
    let limit = Duration::from_secs(2);
    let actual = format!("{snapshot:?}");
    expect(snapshot < limit, "a snapshot in less than 2 s", actual)?;
    if !subject.declares(NodeSetsDeltas) {
        return Ok(());
    }
    let upload = subject.upload(&set, "a", "b", nodes.len(), &[&nodes[..1]], &[]);
    let began = Instant::now();
    sync(&subject.client, upload).await?;
    let delta = began.elapsed();
    let limit = Duration::from_millis(100);
    let actual = format!("{delta:?}");
    expect(delta < limit, "a delta in less than 100 ms", actual)
}

async fn again(subject: &Subject) -> Verdict {
    let (mut nodes, set) = (nodes(3), subject.name());
    subject.sync_as(&set, "a", &nodes).await?;
    let label = ("conformance.example/label".to_owned(), "x".to_owned());
    nodes[0].labels.extend([label]);
    subject.sync_as(&set, "a", &nodes).await?;
    if !subject.declares(NodeSetsDeltas) {
        return held(subject, &set, "a", 3).await;
    }
    let upload = subject.upload(&set, "a", "a", 3, &[&nodes[..1]], &[]);
    let upserted = sync(&subject.client, upload).await;
    upserted.required("an upload whose base_revision and revision are equal is OK")?;
    held(subject, &set, "a", 3).await
}

async fn empty(subject: &Subject) -> Verdict {
    let set = subject.name();
    subject.sync_as(&set, "none", &[]).await?;
    held(subject, &set, "none", 0).await
}

/// Most sets that a case syncs.
const MOST_SETS: u32 = 16;

async fn several(subject: &Subject) -> Verdict {
    let declared = subject.capabilities().node_sets.unwrap_or_default();
    if declared.max_sets < 2 {
        return Err(skipped("the provider declares to hold one set"));
    }
    let nodes = nodes(2);
    let sets = 0..declared.max_sets.min(MOST_SETS);
    let sets: Vec<_> = sets.map(|_| subject.name()).collect();
    for set in &sets {
        subject.sync_as(set, "a", &nodes).await?;
    }
    for set in &sets {
        held(subject, set, "a", 2).await?;
    }
    Ok(())
}

async fn echo(subject: &Subject) -> Verdict {
    let set = subject.name();
    let revision = subject.sync_as(&set, "a-revision", &nodes(1)).await?;
    expect(
        revision == "a-revision",
        "the revision \"a-revision\"",
        format!("{revision:?}"),
    )
}

async fn separate(subject: &Subject) -> Verdict {
    let (one, other) = (subject.name(), subject.name());
    subject.sync_as(&one, "only-in-one", &nodes(2)).await?;
    not_held(subject, &other, "only-in-one").await
}

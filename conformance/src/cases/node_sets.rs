//! `NodeSetsService`. A comparison that names a revision, and nodes of it, shows whether it is held.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use outrigger_api::v1::{
    ErrorReason, LoadBalancerDisposition as Disposition, Node, NodeAddress, NodeTargets,
    SyncNodeSetRequest,
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    call_error::CallError,
    capability::Capability::LoadBalancers,
    case::{Check, check},
    subject::{Subject, describe, expect_one_of, inline, named, upload},
    verdict::{Verdict, expect, failed, refused, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("NDS-01", messages),
        check("NDS-02", some_nodes),
        check("NDS-05", unknown_revision),
        check("NDS-06", previous),
        check("NDS-08", restart),
        check("NDS-09", large),
        check("NDS-10", again),
        check("NDS-14", unknown_name),
        check("NDS-03", cancelled),
        check("NDS-04", broken_uploads),
    ]
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

/// Names of nodes, for a reference.
fn names(nodes: &[Node]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

impl Subject {
    /// Syncs nodes in so many messages under a revision.
    async fn sync(&self, revision: &str, messages: &[&[Node]]) -> Result<String, CallError> {
        let upload = stream::iter(upload(&self.client.context(), revision, messages));
        Ok(self.client.sync_node_set(upload).await?.revision)
    }

    /// Skips the case where no call names targets.
    fn needs_load_balancers(&self) -> Verdict {
        if self.declares(LoadBalancers) {
            return Ok(());
        }
        Err(skipped(
            "no call names targets: Capabilities.load_balancers is not declared",
        ))
    }

    /// True if the targets are held.
    async fn resolves(&self, targets: NodeTargets) -> Verdict<bool> {
        self.needs_load_balancers()?;
        match self.get(&self.service(), Some(targets)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is(ErrorReason::NodeSetUnknown) => Ok(false),
            Err(error) => Err(failed("an answer, or NODE_SET_UNKNOWN", error)),
        }
    }
}

/// Fails unless the revision is held with these nodes.
async fn held(subject: &Subject, revision: &str, nodes: &[Node]) -> Verdict {
    let held = subject
        .resolves(named(revision, Some(names(nodes))))
        .await?;
    let expected = format!(
        "the revision {revision:?} is held with {} nodes",
        nodes.len()
    );
    expect(held, expected, "it is not known")
}

/// Fails unless the revision is not held.
async fn not_held(subject: &Subject, revision: &str) -> Verdict {
    let held = subject.resolves(named(revision, None)).await?;
    let expected = format!("the revision {revision:?}, which was not applied, is not known");
    expect(!held, expected, "it is held")
}

async fn messages(subject: &Subject) -> Verdict {
    let nodes = nodes(50);
    let many: Vec<_> = nodes.chunks(1).collect();
    for messages in [&[&nodes[..]][..], &many, &[]] {
        let revision = subject.name();
        let answered = subject.sync(&revision, messages).await?;
        let expected = format!("the revision {revision:?}");
        expect(answered == revision, expected, format!("{answered:?}"))?;
        held(subject, &revision, &messages.concat()).await?;
    }
    Ok(())
}

/// Ensures a load balancer with these nodes of a revision that has all, and compares it with them.
async fn balances(subject: &Subject, nodes: &[Node]) -> Verdict {
    subject.needs_load_balancers()?;
    let (service, revision) = (subject.service(), subject.name());
    subject.sync(&revision, &[&subject.target_nodes()]).await?;
    let targets = Some(named(&revision, Some(names(nodes))));
    subject.ensure_with(&service, targets).await?;
    let answer = subject.get(&service, Some(inline(nodes))).await?;
    let expected = format!("READY with the {} nodes that the Ensure named", nodes.len());
    expect_one_of(&[Disposition::Ready], &answer, expected)
}

async fn some_nodes(subject: &Subject) -> Verdict {
    balances(subject, &subject.target_nodes()[..1]).await?;
    balances(subject, &[]).await
}

async fn unknown_name(subject: &Subject) -> Verdict {
    let (nodes, revision) = (nodes(3), subject.name());
    subject.sync(&revision, &[&nodes[..2]]).await?;
    held(subject, &revision, &nodes[..2]).await?;
    let resolves = subject
        .resolves(named(&revision, Some(names(&nodes))))
        .await?;
    let expected = "a reference with a name that the revision lacks is NODE_SET_UNKNOWN";
    expect(!resolves, expected, "it is answered")
}

async fn unknown_revision(subject: &Subject) -> Verdict {
    subject.needs_load_balancers()?;
    let service = subject.service();
    let unknown = Some(named("never-synced", None));
    let expected = "an Ensure that names a revision that is not held is NODE_SET_UNKNOWN";
    let answered = subject.ensure_once(&service, unknown).await;
    let reasons = [ErrorReason::NodeSetUnknown];
    refused(answered, &reasons, expected, |answer| describe(&answer))?;
    subject.get_is(&service, Disposition::Absent).await?;
    subject.ensure_all(&service).await?;
    Ok(())
}

async fn previous(subject: &Subject) -> Verdict {
    let (nodes, one, two) = (nodes(3), subject.name(), subject.name());
    subject.sync(&one, &[&nodes[..2]]).await?;
    subject.sync(&two, &[&nodes]).await?;
    held(subject, &one, &nodes[..2]).await?;
    held(subject, &two, &nodes).await
}

async fn restart(subject: &Subject) -> Verdict {
    let (nodes, revision) = (nodes(3), subject.name());
    subject.sync(&revision, &[&nodes]).await?;
    subject.restart().await?;
    let subject = &subject.connect().await?;
    // Held or not: any other answer is a failure.
    subject.resolves(named(&revision, None)).await?;
    subject.sync(&revision, &[&nodes]).await?;
    held(subject, &revision, &nodes).await
}

async fn large(subject: &Subject) -> Verdict {
    let nodes = nodes(5_000);
    let messages: Vec<_> = nodes.chunks(500).collect();
    let began = Instant::now();
    subject.sync(&subject.name(), &messages).await?;
    let took = began.elapsed();
    let limit = Duration::from_secs(2);
    expect(took < limit, "a sync in less than 2 s", format!("{took:?}"))
}

async fn again(subject: &Subject) -> Verdict {
    let (mut nodes, revision) = (nodes(3), subject.name());
    subject.sync(&revision, &[&nodes]).await?;
    subject.sync(&subject.name(), &[&nodes[..1]]).await?;
    let label = ("conformance.example/label".to_owned(), "x".to_owned());
    nodes[0].labels.extend([label]);
    subject.sync(&revision, &[&nodes]).await?;
    subject.sync(&subject.name(), &[&nodes[..2]]).await?;
    held(subject, &revision, &nodes).await
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

/// A part of a description, and the change that breaks an upload of three nodes so.
type Breach = (&'static str, fn(&mut Vec<SyncNodeSetRequest>));

const BREACHES: [Breach; 5] = [
    ("without complete", |upload| upload[2].complete = false),
    ("of 2 nodes with a node_count of 3", |upload| {
        upload.remove(1);
    }),
    ("without a revision", |upload| upload[2].revision.clear()),
    ("with a name twice", |upload| {
        upload[1].nodes = upload[0].nodes.clone();
    }),
    ("without messages", Vec::clear),
];

async fn broken_uploads(subject: &Subject) -> Verdict {
    let (nodes, before) = (nodes(2), subject.name());
    subject.sync(&before, &[&nodes]).await?;
    for (described, breach) in BREACHES {
        let revision = subject.name();
        let mut upload = three(subject, &revision);
        breach(&mut upload);
        let expected = format!("an upload {described} is INVALID_REQUEST");
        let synced = subject.client.sync_node_set(stream::iter(upload)).await;
        let applied = |answer| format!("it is applied: {answer:?}");
        refused(synced, &[ErrorReason::InvalidRequest], expected, applied)?;
        if subject.declares(LoadBalancers) {
            not_held(subject, &revision).await?;
            held(subject, &before, &nodes).await?;
        }
    }
    Ok(())
}

//! Targets that are synced once and named from then on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use outrigger_api::v1::{self, node_targets};
use outrigger_core::{
    error_class::ErrorClass, node::NodeView, service::answer::LoadBalancerAnswer, targets::Targets,
};
use prost::Message;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::{
    fake::{Reply, ready, refusal},
    is_down,
    rig::{Rig, node, node_with, service, targets},
    secs,
};
use crate::{DownCause, Error};

mod loss;
mod many;

async fn ensure(
    rig: &Rig,
    name: &str,
    targets: &Arc<Targets>,
) -> Result<LoadBalancerAnswer, Error> {
    let service = service(name);
    rig.provider.ensure_alone(&service, targets).await
}

fn numbered(range: std::ops::Range<usize>) -> Arc<Targets> {
    targets(range.map(|n| format!("node-{n:04}")))
}

/// Base, upserts and removals of each upload.
fn uploads(rig: &Rig) -> Vec<(bool, usize, usize)> {
    let uploads = rig.fake.balancers.uploads.lock();
    let count = |chunks: &[v1::NodeSetChunk], of: fn(&v1::NodeSetChunk) -> usize| {
        chunks.iter().map(of).sum::<usize>()
    };
    uploads
        .iter()
        .map(|(_, uploaded)| {
            (
                !uploaded.begin.base_revision.is_empty(),
                count(&uploaded.chunks, |chunk| chunk.upserts.len()),
                count(&uploaded.chunks, |chunk| chunk.removals.len()),
            )
        })
        .collect()
}

/// The provider's process ends, and another comes up with nothing of it.
async fn restart(rig: &Rig, boot_id: &'static str) {
    rig.fake.kill();
    rig.reaches(is_down(DownCause::Disconnected)).await;
    rig.fake.balancers.forget_node_sets();
    introduce(rig, boot_id);
    rig.fake.restart();
    rig.wait_until_serving().await;
}

fn introduce(rig: &Rig, boot_id: &'static str) {
    rig.fake.introduce(move |answer| {
        answer.boot_id = boot_id.into();
        let offered = answer.capabilities.get_or_insert_default();
        offered.load_balancers = Some(v1::LoadBalancersCapability::default());
        offered.node_sets = Some(v1::NodeSetsCapability {
            deltas: true,
            ..v1::NodeSetsCapability::default()
        });
    });
}

#[tokio::test(start_paused = true)]
async fn a_set_is_synced_before_the_first_call_and_then_named() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    assert!(uploads(&rig).is_empty());
    for name in ["web", "db", "web"] {
        ensure(&rig, name, &all).await.unwrap();
    }
    assert_eq!(uploads(&rig), [(false, 10, 0)]);
    for (_, request) in rig.fake.balancers.ensure.calls() {
        let Some(node_targets::Targets::Ref(named)) = request.targets.unwrap().targets else {
            panic!("nodes in a call")
        };
        assert_eq!(named.revision, all.revision().as_str());
    }
    let (_, uploaded) = rig.fake.balancers.uploads.lock().remove(0);
    let context = uploaded.begin.context.unwrap();
    assert_eq!(
        (&*context.cluster_name, context.request_id.len()),
        ("blue", 36)
    );
    assert_eq!(&*uploaded.chunks[0].upserts[3].name, "node-0003");
    assert_eq!(&*uploaded.chunks[0].upserts[3].system_uuid, "smbios");
    let metrics = rig.metrics();
    let line = "outrigger_provider_node_set_syncs_total{kind=\"snapshot\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    assert!(
        metrics.contains("rpc=\"SyncNodeSet\",code=\"OK\""),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_node_sets_gets_the_nodes() {
    let rig = Rig::balancing(|_| {}).await;
    ensure(&rig, "web", &numbered(0..10)).await.unwrap();
    assert!(uploads(&rig).is_empty());
    let (_, request) = rig.fake.balancers.ensure.calls().remove(0);
    let Some(node_targets::Targets::Inline(inline)) = request.targets.unwrap().targets else {
        panic!("no nodes")
    };
    assert_eq!(inline.nodes.len(), 10);
    // An empty set is legal, and is not the same as no set.
    ensure(&rig, "web", &numbered(0..0)).await.unwrap();
    let (_, request) = rig.fake.balancers.ensure.calls().remove(1);
    assert!(request.targets.unwrap().targets.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_change_is_sent_alone_where_that_is_less() {
    let rig = Rig::holding().await;
    let sync = async |targets: &Arc<Targets>| ensure(&rig, "web", targets).await.unwrap();
    sync(&numbered(0..100)).await;
    sync(&numbered(2..103)).await;
    sync(&edited(&numbered(2..103), 7..8, |node| {
        node.provider_id = "fake://node-0007".into();
    }))
    .await;
    // Hardly any stays.
    sync(&numbered(90..110)).await;
    sync(&numbered(0..0)).await;
    assert_eq!(
        uploads(&rig),
        [
            (false, 100, 0),
            (true, 3, 2),
            (true, 1, 0),
            (false, 20, 0),
            (false, 0, 0),
        ]
    );
    let metrics = rig.metrics();
    let line = "outrigger_provider_node_set_syncs_total{kind=\"delta\"} 2";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_deltas_gets_snapshots() {
    let declared = v1::NodeSetsCapability::default();
    let rig = Rig::balancing(move |offered| offered.node_sets = Some(declared)).await;
    for last in [100, 101] {
        ensure(&rig, "web", &numbered(0..last)).await.unwrap();
    }
    assert_eq!(uploads(&rig), [(false, 100, 0), (false, 101, 0)]);
}

/// The same nodes, with an edit of those of these numbers.
fn edited(
    targets: &Targets,
    numbers: std::ops::Range<usize>,
    edit: impl Fn(&mut NodeView),
) -> Arc<Targets> {
    let names: Vec<_> = numbers.map(|n| format!("node-{n:04}")).collect();
    let nodes = targets.nodes().iter().map(|node| {
        let mut node = (**node).clone();
        if names.iter().any(|name| **name == *node.name) {
            edit(&mut node);
        }
        Arc::new(node)
    });
    Arc::new(Targets::among(nodes))
}

/// Labels, taints, cordon and readiness make no new revision, but a call goes out with their current values.
#[tokio::test(start_paused = true)]
async fn nodes_of_the_same_revision_are_brought_up_to_date_before_a_call() {
    let rig = Rig::holding().await;
    let first = edited(&numbered(0..100), 0..100, |node| {
        node.resource_version = "1".into();
    });
    ensure(&rig, "web", &first).await.unwrap();
    let heartbeat = edited(&first, 0..100, |node| node.resource_version = "2".into());
    ensure(&rig, "web", &heartbeat).await.unwrap();
    assert_eq!(uploads(&rig), [(false, 100, 0)], "a heartbeat is no change");

    let relabelled = edited(&heartbeat, 3..5, |node| {
        node.resource_version = "3".into();
        node.labels = node.labels.with([("rack", "7")]);
    });
    assert_eq!(relabelled.revision(), first.revision());
    for name in ["web", "db"] {
        ensure(&rig, name, &relabelled).await.unwrap();
    }
    // A call that was decided before brings no older labels back.
    ensure(&rig, "web", &heartbeat).await.unwrap();
    let cordoned = edited(&relabelled, 9..10, |node| {
        node.resource_version = "4".into();
        node.unschedulable = true;
    });
    ensure(&rig, "web", &cordoned).await.unwrap();
    let expected = [(false, 100, 0), (true, 2, 0), (true, 1, 0)];
    assert_eq!(uploads(&rig), expected);
    let uploads = rig.fake.balancers.uploads.lock();
    let node = &uploads[1].1.chunks[0].upserts[0];
    assert_eq!(node.labels.get("rack").map(String::as_str), Some("7"));
}

/// It is one revision for the provider, which goes on holding the one before.
#[tokio::test(start_paused = true)]
async fn bringing_nodes_up_to_date_pushes_no_revision_out() {
    let rig = Rig::holding().await;
    let (one, two) = (numbered(0..10), numbered(0..11));
    let relabelled = edited(&two, 0..1, |node| {
        node.labels = node.labels.with([("rack", "7")]);
    });
    for targets in [&one, &two, &relabelled, &one] {
        ensure(&rig, "web", targets).await.unwrap();
    }
    let expected = [(false, 10, 0), (true, 1, 0), (true, 1, 0)];
    assert_eq!(uploads(&rig), expected);
}

#[tokio::test(start_paused = true)]
async fn the_revision_before_the_latest_needs_no_sync() {
    let rig = Rig::holding().await;
    let [one, two, three] = [10, 11, 12].map(|n| numbered(0..n));
    for targets in [&one, &two, &one, &two, &three, &two, &one] {
        ensure(&rig, "web", targets).await.unwrap();
    }
    // The last is older than what a provider has to keep.
    let expected = [(false, 10, 0), (true, 1, 0), (true, 1, 0), (true, 0, 2)];
    assert_eq!(uploads(&rig), expected);
}

#[tokio::test(start_paused = true)]
async fn all_who_want_a_set_wait_for_one_sync() {
    let rig = Rig::holding().await;
    rig.fake
        .balancers
        .on_sync(|_| Reply::After(secs(2), Box::new(Reply::Say(()))));
    let (all, more) = (numbered(0..10), numbered(0..11));
    let started = Instant::now();
    let of = async |n: usize| {
        let targets = if n.is_multiple_of(2) { &all } else { &more };
        ensure(&rig, &format!("web-{n}"), targets).await.unwrap();
    };
    join_all((0..16).map(of)).await;
    assert_eq!(uploads(&rig), [(false, 10, 0), (true, 1, 0)]);
    assert_eq!(started.elapsed(), secs(4));
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_fails_fails_all_who_wait_for_it_and_the_next_begins_anew() {
    let rig = Rig::holding().await;
    rig.fake.balancers.on_sync(|_| Reply::Hang);
    let all = numbered(0..10);
    let started = Instant::now();
    let results = join_all((0..10).map(async |n| ensure(&rig, &format!("web-{n}"), &all).await));
    for result in results.await {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    }
    assert_eq!((started.elapsed(), uploads(&rig).len()), (secs(60), 1));
    assert!(rig.fake.balancers.ensure.calls().is_empty());
    rig.fake.balancers.on_sync(|_| Reply::Say(()));
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sync_outlives_the_caller_who_began_it() {
    let rig = Rig::holding().await;
    rig.fake
        .balancers
        .on_sync(|_| Reply::After(secs(2), Box::new(Reply::Say(()))));
    let all = numbered(0..10);
    let mut first = Box::pin(ensure(&rig, "web", &all));
    assert!(futures::FutureExt::now_or_never(&mut first).is_none());
    let (second, ()) = tokio::join!(ensure(&rig, "db", &all), async {
        sleep(secs(1)).await;
        drop(first);
    });
    second.unwrap();
    assert_eq!(uploads(&rig).len(), 1);
    // With the last of them it ends, and blocks no other upload.
    let more = numbered(0..11);
    let given_up = tokio::time::timeout(secs(1), ensure(&rig, "web", &more)).await;
    assert!(given_up.is_err());
    let started = Instant::now();
    ensure(&rig, "web", &more).await.unwrap();
    assert_eq!(started.elapsed(), secs(2));
}

#[tokio::test(start_paused = true)]
async fn chunks_are_as_large_as_is_fit_and_no_larger() {
    let heavy = |n: usize, bytes: usize| {
        let mut node = (*node(&format!("node-{n:04}"))).clone();
        node.labels = node.labels.with([("weight", &*"x".repeat(bytes))]);
        Arc::new(node)
    };
    let check = async |limit: u64, bytes: usize, chunks: &[usize]| {
        let rig = Rig::with(|_, fake| {
            fake.introduce(move |answer| {
                answer.max_receive_message_bytes = limit;
                let offered = answer.capabilities.get_or_insert_default();
                offered.load_balancers = Some(v1::LoadBalancersCapability::default());
                offered.node_sets = Some(v1::NodeSetsCapability {
                    deltas: true,
                    ..v1::NodeSetsCapability::default()
                });
            });
        });
        rig.wait_until_serving().await;
        let all = Arc::new(Targets::among((0..10).map(|n| heavy(n, bytes))));
        let result = ensure(&rig, "web", &all).await;
        let uploads = rig.fake.balancers.uploads.lock();
        let sent: Vec<_> = uploads.iter().flat_map(|(_, u)| &u.chunks).collect();
        let most = usize::try_from(limit).unwrap().min(1 << 20);
        assert!(sent.iter().all(|chunk| chunk.encoded_len() <= most));
        let sizes: Vec<_> = sent.iter().map(|chunk| chunk.upserts.len()).collect();
        assert_eq!(sizes, chunks);
        result
    };
    check(4 << 20, 300 << 10, &[3, 3, 3, 1]).await.unwrap();
    check(64 << 10, 20 << 10, &[3, 3, 3, 1]).await.unwrap();
    let error = check(64 << 10, 64 << 10, &[]).await.unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit: 65536, .. }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_upload_taken_as_another_revision_is_not_trusted() {
    let rig = Rig::holding().await;
    let all = Arc::new(Targets::among([node_with("a", "uid-1", "fake://a")]));
    *rig.fake.balancers.takes_as.lock() = Some("another".into());
    let error = ensure(&rig, "web", &all).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Malformed);
    assert!(rig.fake.balancers.ensure.calls().is_empty());
}

//! Targets that are synced once and named from then on.

use std::sync::Arc;

use futures::future::join_all;
use outrigger_api::v1::{self, node_targets};
use outrigger_core::{
    error_class::ErrorClass,
    node::NodeView,
    service::{ServiceView, answer::LoadBalancerAnswer},
    targets::{TargetLabels, TargetPool, Targets},
};
use prost::Message;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::{
    fake::{Reply, refusal},
    is_down,
    rig::{Rig, node, node_with, service, targets},
    secs,
};
use crate::{DownCause, Error};

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

/// Number of nodes of each upload.
fn uploads(rig: &Rig) -> Vec<usize> {
    let uploads = rig.fake.balancers.uploads.lock();
    let nodes = uploads
        .iter()
        .map(|upload| upload.iter().map(|message| message.nodes.len()).sum());
    nodes.collect()
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
        offered.node_sets = Some(v1::NodeSetsCapability {});
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
    assert_eq!(uploads(&rig), [10]);
    for (_, request) in rig.fake.balancers.ensure.calls() {
        let Some(node_targets::Targets::Ref(named)) = request.targets.unwrap().targets else {
            panic!("nodes in a call")
        };
        assert_eq!(
            (&*named.revision, named.only),
            (all.revision().as_str(), None)
        );
    }
    let upload = rig.fake.balancers.uploads.lock().remove(0).remove(0);
    let context = upload.context.unwrap();
    assert_eq!(
        (&*context.cluster_name, context.request_id.len()),
        ("blue", 36)
    );
    assert_eq!(&*upload.nodes[3].name, "node-0003");
    assert_eq!(&*upload.nodes[3].system_uuid, "smbios");
    let metrics = rig.metrics();
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
async fn a_call_whose_nodes_do_not_fit_into_a_message_is_not_made() {
    let rig = Rig::balancing_in_small_messages().await;
    let error = ensure(&rig, "web", &numbered(0..5_000)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Invalid);
    let text = error.to_string();
    assert!(text.contains("if it serves node sets"), "{text}");
    assert!(rig.fake.balancers.ensure.calls().is_empty());
}

/// The targets of `pool=x` among some nodes.
fn selected(labelled: std::ops::Range<usize>) -> Arc<Targets> {
    let key = outrigger_core::targets::ANNOTATION_NODE_SELECTOR;
    let service = ServiceView {
        annotations: [(key, "pool=x")].into_iter().collect(),
        ..(*service("web")).clone()
    };
    let all = edited(&numbered(0..5), labelled, |node| {
        node.labels = node.labels.with([("pool", "x")]);
    });
    let labels = TargetLabels {
        has_selectors: true,
        ..TargetLabels::default()
    };
    let pool = TargetPool::among(all.nodes().iter().cloned(), labels);
    pool.targets_of(&service)
}

#[tokio::test(start_paused = true)]
async fn a_selection_is_named_by_the_names_of_nodes_of_the_whole_set() {
    let rig = Rig::holding().await;
    ensure(&rig, "db", &numbered(0..5)).await.unwrap();
    for labelled in [2..4, 0..0] {
        ensure(&rig, "web", &selected(labelled)).await.unwrap();
    }
    assert_eq!(uploads(&rig), [5]);
    let only = |(_, request): (_, v1::EnsureLoadBalancerRequest)| {
        let Some(node_targets::Targets::Ref(named)) = request.targets.unwrap().targets else {
            panic!("nodes in a call")
        };
        assert_eq!(named.revision, numbered(0..5).revision().as_str());
        named.only.map(|only| only.names)
    };
    let named: Vec<_> = rig
        .fake
        .balancers
        .ensure
        .calls()
        .into_iter()
        .map(only)
        .collect();
    let some = ["node-0002", "node-0003"].map(str::to_owned).to_vec();
    assert_eq!(named, [None, Some(some), Some(Vec::new())]);
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

/// Labels, taints, cordon and readiness make no new revision, but are at most some seconds older than a call.
#[tokio::test(start_paused = true)]
async fn nodes_of_the_same_revision_are_brought_up_to_date_every_ten_seconds() {
    let rig = Rig::holding().await;
    let first = numbered(0..10);
    ensure(&rig, "web", &first).await.unwrap();
    let heartbeat = edited(&first, 0..10, |node| node.resource_version = "2".into());
    let relabelled = edited(&heartbeat, 3..4, |node| {
        node.labels = node.labels.with([("rack", "7")]);
    });
    assert_eq!(relabelled.revision(), first.revision());
    ensure(&rig, "web", &relabelled).await.unwrap();
    assert_eq!(uploads(&rig).len(), 1, "too soon");
    sleep(secs(10)).await;
    ensure(&rig, "web", &heartbeat).await.unwrap();
    assert_eq!(uploads(&rig).len(), 1, "a heartbeat is no change");
    for name in ["web", "db"] {
        ensure(&rig, name, &relabelled).await.unwrap();
    }
    assert_eq!(uploads(&rig), [10, 10]);
    let node = rig.fake.balancers.uploads.lock()[1][0].nodes[3].clone();
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
    for targets in [&one, &two] {
        ensure(&rig, "web", targets).await.unwrap();
    }
    sleep(secs(10)).await;
    for targets in [&relabelled, &one] {
        ensure(&rig, "web", targets).await.unwrap();
    }
    assert_eq!(uploads(&rig), [10, 11, 11]);
}

#[tokio::test(start_paused = true)]
async fn the_revision_before_the_latest_needs_no_sync() {
    let rig = Rig::holding().await;
    let [one, two, three] = [10, 11, 12].map(|n| numbered(0..n));
    for targets in [&one, &two, &one, &two, &three, &two, &one] {
        ensure(&rig, "web", targets).await.unwrap();
    }
    // The last is older than what a provider has to keep.
    assert_eq!(uploads(&rig), [10, 11, 12, 10]);
}

#[tokio::test(start_paused = true)]
async fn all_who_want_a_set_wait_for_one_sync() {
    let rig = Rig::holding().await;
    rig.fake
        .balancers
        .on_sync(|| Reply::After(secs(2), Box::new(Reply::Say(()))));
    let (all, more) = (numbered(0..10), numbered(0..11));
    let started = Instant::now();
    let of = async |n: usize| {
        let targets = if n.is_multiple_of(2) { &all } else { &more };
        ensure(&rig, &format!("web-{n}"), targets).await.unwrap();
    };
    join_all((0..16).map(of)).await;
    assert_eq!(uploads(&rig), [10, 11]);
    assert_eq!(started.elapsed(), secs(4));
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_fails_fails_all_who_wait_for_it_and_the_next_call_syncs_again() {
    let rig = Rig::holding().await;
    rig.fake.balancers.on_sync(|| Reply::Hang);
    let all = numbered(0..10);
    let started = Instant::now();
    let results = join_all((0..10).map(async |n| ensure(&rig, &format!("web-{n}"), &all).await));
    for result in results.await {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    }
    assert_eq!((started.elapsed(), uploads(&rig).len()), (secs(60), 1));
    assert!(rig.fake.balancers.ensure.calls().is_empty());
    rig.fake.balancers.on_sync(|| Reply::Say(()));
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_leaves_the_sync_to_the_next_one() {
    let rig = Rig::holding().await;
    rig.fake
        .balancers
        .on_sync(|| Reply::After(secs(2), Box::new(Reply::Say(()))));
    let all = numbered(0..10);
    let mut first = Box::pin(ensure(&rig, "web", &all));
    assert!(futures::FutureExt::now_or_never(&mut first).is_none());
    let started = Instant::now();
    let (second, ()) = tokio::join!(ensure(&rig, "db", &all), async {
        sleep(secs(1)).await;
        drop(first);
    });
    second.unwrap();
    assert_eq!(started.elapsed(), secs(3));
}

#[tokio::test(start_paused = true)]
async fn messages_are_as_large_as_is_fit_and_no_larger() {
    let heavy = |n: usize, bytes: usize| {
        let mut node = (*node(&format!("node-{n:04}"))).clone();
        node.annotations = node.annotations.with([("weight", &*"x".repeat(bytes))]);
        Arc::new(node)
    };
    let check = async |limit: u64, bytes: usize, expected: &[usize]| {
        let rig = Rig::with(|_, fake| {
            fake.introduce(move |answer| {
                answer.max_receive_message_bytes = limit;
                answer.node_annotation_prefixes = vec!["weight".into()];
                let offered = answer.capabilities.get_or_insert_default();
                offered.load_balancers = Some(v1::LoadBalancersCapability::default());
                offered.node_sets = Some(v1::NodeSetsCapability {});
            });
        });
        rig.wait_until_serving().await;
        let all = Arc::new(Targets::among((0..10).map(|n| heavy(n, bytes))));
        let result = ensure(&rig, "web", &all).await;
        let messages = rig.fake.balancers.uploads.lock().concat();
        let most = usize::try_from(limit).unwrap().min(1 << 20);
        assert!(messages.iter().all(|message| message.encoded_len() <= most));
        let sizes: Vec<_> = messages.iter().map(|message| message.nodes.len()).collect();
        assert_eq!(sizes, expected);
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

#[tokio::test(start_paused = true)]
async fn another_process_is_synced_again() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    restart(&rig, "boot-2").await;
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig), [10; 2]);
    assert_eq!(rig.fake.balancers.ensure.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_same_process_on_another_connection_holds_what_it_held() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    rig.fake.kill();
    rig.reaches(is_down(DownCause::Disconnected)).await;
    rig.fake.restart();
    rig.wait_until_serving().await;
    ensure(&rig, "web", &all).await.unwrap();
    assert_eq!(uploads(&rig).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_the_provider_lost_is_synced_once_for_all_and_each_call_repeated_once() {
    let rig = Rig::holding().await;
    let all = numbered(0..10);
    ensure(&rig, "web", &all).await.unwrap();
    rig.fake.balancers.forget_node_sets();
    let results = join_all((0..10).map(async |n| ensure(&rig, &format!("web-{n}"), &all).await));
    for result in results.await {
        result.unwrap();
    }
    assert_eq!(uploads(&rig), [10; 2]);
    assert_eq!(rig.fake.balancers.ensure.calls().len(), 1 + 2 * 10);
    // Once, and no more than that.
    let unknown = refusal(Code::FailedPrecondition, "NODE_SET_UNKNOWN", None);
    rig.fake
        .balancers
        .ensure
        .on(move |_| Reply::Fail(unknown.clone()));
    let error = ensure(&rig, "web", &all).await.unwrap_err();
    // The owner gets an event, for it would go on for ever.
    assert_eq!(error.class(), ErrorClass::Malformed);
    let text = error.to_string();
    assert!(text.contains("NODE_SET_UNKNOWN"), "{text}");
    assert_eq!(rig.fake.balancers.ensure.calls().len(), 1 + 2 * 10 + 2);
}

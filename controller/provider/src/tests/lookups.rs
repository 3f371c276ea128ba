use std::sync::{Arc, atomic::Ordering};

use futures::FutureExt;
use outrigger_api::v1::{self, instance_result::Outcome};
use outrigger_core::{
    error_class::ErrorClass,
    node::{NodeView, instance::Lookup},
};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::{
    fake::{Reply, found, refusal, result, with_effects},
    millis,
    rig::{Rig, node, node_with},
    secs,
};
use crate::{Error, LookupPurpose};
use outrigger_runtime::fixture::Warnings;

mod answers;

pub(super) fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("node-{n}"))
}

#[tokio::test(start_paused = true)]
async fn two_thousand_lookups_are_twenty_calls_four_at_a_time() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|request| {
        let results = request.items.iter().map(found).collect();
        let answer = v1::BatchGetInstancesResponse { results };
        Reply::After(millis(20), Box::new(Reply::Say(answer)))
    });
    let started = Instant::now();
    let results = rig.look_up_all(names(2000)).await;
    for (name, result) in names(2000).zip(results) {
        let Ok(Lookup::Found(instance)) = result else {
            panic!("{name}: {result:?}")
        };
        assert_eq!(*instance.provider_id, *format!("fake://{name}"));
    }
    assert_eq!(rig.fake.calls(), 20);
    assert_eq!(rig.fake.most_in_flight.load(Ordering::Relaxed), 4);
    assert_eq!(started.elapsed(), millis(100));
    let metrics = rig.metrics();
    assert!(metrics.contains(
        "outrigger_provider_rpc_duration_seconds_count{rpc=\"BatchGetInstances\",code=\"OK\",\
         reason=\"none\"} 20"
    ));
}

#[tokio::test(start_paused = true)]
async fn a_batch_leaves_when_it_is_idle_old_or_full() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            let capabilities = answer.capabilities.as_mut().unwrap();
            capabilities.instances.as_mut().unwrap().max_batch_size = 20;
        });
    });
    rig.wait_until_serving().await;
    let started = Instant::now();
    rig.look_up("alone").await.unwrap();
    assert_eq!(started.elapsed(), millis(25));
    // One more every 20 ms is never idle; it is sent after 250 ms with those until then.
    let trickle = (0..16_u32).map(async |n| {
        sleep(millis(20) * n).await;
        rig.look_up(&format!("trickle-{n}")).await.unwrap();
    });
    futures::future::join_all(trickle).await;
    let started = Instant::now();
    rig.look_up_all(names(20)).await;
    assert_eq!(started.elapsed(), millis(0));
    let sizes: Vec<usize> = rig
        .fake
        .batch
        .calls()
        .iter()
        .map(|(_, b)| b.items.len())
        .collect();
    assert_eq!(sizes, [1, 13, 3, 20]);
}

#[tokio::test(start_paused = true)]
async fn lookups_of_one_node_never_share_a_call() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let refresh = |seconds| LookupPurpose::Refresh {
        max_staleness: secs(seconds),
    };
    let ask = async |uid: &str, id: &str, purpose| {
        rig.provider
            .instances()
            .look_up(node_with("a", uid, id), purpose)
            .await
            .result
            .unwrap()
    };
    tokio::join!(
        ask("uid-1", "", LookupPurpose::Initialization),
        ask("uid-1", "", LookupPurpose::Initialization),
        ask("uid-1", "", LookupPurpose::Lifecycle),
        ask("uid-1", "", refresh(30)),
        ask("uid-2", "", LookupPurpose::Initialization),
        ask("uid-1", "fake://a", LookupPurpose::Initialization),
    );
    let batches = rig.fake.batch.calls();
    let mut questions: Vec<_> = batches
        .iter()
        .map(|(_, batch)| {
            assert_eq!(batch.items.len(), 1);
            let node = &batch.items[0];
            let staleness = batch.max_staleness.unwrap().seconds;
            (
                node.uid.as_str(),
                node.provider_id.as_str(),
                batch.view(),
                staleness,
            )
        })
        .collect();
    questions.sort_unstable_by_key(|questions| {
        (questions.0, questions.1, questions.2 as i32, questions.3)
    });
    assert_eq!(
        questions,
        [
            ("uid-1", "", v1::InstanceView::Metadata, 0),
            ("uid-1", "", v1::InstanceView::Metadata, 0),
            ("uid-1", "", v1::InstanceView::Metadata, 30),
            ("uid-1", "", v1::InstanceView::State, 0),
            ("uid-1", "fake://a", v1::InstanceView::Metadata, 0),
            ("uid-2", "", v1::InstanceView::Metadata, 0),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_takes_back_his_question_only() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    // Before the batch leaves.
    let mut gone = Box::pin(rig.look_up("gone"));
    assert!((&mut gone).now_or_never().is_none());
    let (result, ()) = tokio::join!(rig.look_up("stays"), async {
        sleep(millis(5)).await;
        drop(gone);
    });
    result.unwrap();
    {
        let batches = rig.fake.batch.calls();
        let names: Vec<_> = batches[0]
            .1
            .items
            .iter()
            .map(|node| node.name.as_str())
            .collect();
        assert_eq!(names, ["stays"]);
    }
    // All callers: then nothing is sent.
    let calls = rig.fake.calls();
    assert!(rig.look_up("n9").now_or_never().is_none());
    sleep(secs(1)).await;
    assert_eq!(rig.fake.calls(), calls);
    // In flight.
    rig.fake.batch.on(|request| {
        let results = request.items.iter().map(found).collect();
        let answer = v1::BatchGetInstancesResponse { results };
        Reply::After(secs(1), Box::new(Reply::Say(answer)))
    });
    let mut gone = Box::pin(rig.look_up("gone"));
    assert!((&mut gone).now_or_never().is_none());
    let (result, ()) = tokio::join!(rig.look_up("stays"), async {
        sleep(millis(500)).await;
        drop(gone);
    });
    result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn batches_are_cut_to_what_the_provider_takes() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            answer.max_receive_message_bytes = 64 << 10;
            answer.node_annotation_prefixes = vec!["weight".into()];
        });
    });
    rig.wait_until_serving().await;
    let heavy = |name: &str, bytes: usize| {
        let mut view = (*node(name)).clone();
        view.annotations = view
            .annotations
            .with([("weight", "x".repeat(bytes).as_str())]);
        std::sync::Arc::new(view)
    };
    let ask = async |name: String, bytes| {
        rig.provider
            .instances()
            .look_up(heavy(&name, bytes), LookupPurpose::Initialization)
            .await
            .result
    };
    let mut asks: Vec<_> = (0..10).map(|n| ask(format!("n{n}"), 20 << 10)).collect();
    asks.push(ask("huge".into(), 70 << 10));
    let mut results = futures::future::join_all(asks).await;
    let huge = results.pop().unwrap().unwrap_err();
    assert!(
        matches!(huge, Error::TooLarge { limit: 65536, .. }),
        "{huge:?}"
    );
    assert_eq!(huge.class(), ErrorClass::Invalid);
    for result in results {
        result.unwrap();
    }
    let mut sizes: Vec<usize> = rig
        .fake
        .batch
        .calls()
        .iter()
        .map(|(_, b)| b.items.len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 2, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_sent_with_the_annotations_that_are_read() {
    let node: NodeView = serde_json::from_value(json!({
        "metadata": {
            "name": "a",
            "uid": "uid-a",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"a": "b"},
            "annotations": {"read.example/a": "1", "other.example/b": "2"},
        },
        "spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]},
        "status": {
            "nodeInfo": {"systemUUID": "smbios"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
        },
    }))
    .unwrap();
    let fat = "x".repeat(1 << 20);
    let fat_labels = node.labels.with([("fat", &*fat)]);
    let node = Arc::new(NodeView {
        labels: fat_labels,
        ..node
    });
    for (prefix, annotations) in [
        ("read.example/", &["read.example/a"][..]),
        ("*", &["other.example/b", "read.example/a"]),
    ] {
        let rig = Rig::with(|_, fake| {
            fake.introduce(move |answer| answer.node_annotation_prefixes = vec![prefix.into()]);
        });
        rig.wait_until_serving().await;
        rig.provider
            .instances()
            .look_up(Arc::clone(&node), LookupPurpose::Initialization)
            .await
            .result
            .unwrap();
        let batches = rig.fake.batch.calls();
        let request = &batches[0].1;
        assert_eq!(request.context.as_ref().unwrap().cluster_name, "blue");
        let sent = &request.items[0];
        let mut keys: Vec<_> = sent.annotations.keys().collect();
        keys.sort();
        assert_eq!(keys, annotations);
        assert_eq!((&*sent.uid, &*sent.provider_id), ("uid-a", ""));
        assert_eq!((&*sent.system_uuid, &*sent.labels["a"]), ("smbios", "b"));
        assert!(!sent.labels.contains_key("fat"), "it does not fit");
        assert_eq!(sent.creation_time.as_ref().unwrap().seconds, 1_767_225_600);
        assert_eq!(sent.addresses[0].address, "10.0.0.7");
        let taint = &sent.taints[0];
        assert_eq!((&*taint.key, &*taint.value), ("dedicated", "db"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_node_is_never_asked_about() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let foreign = node_with("a", "uid-1", "aws:///zone/i-1");
    let answer = rig
        .provider
        .instances()
        .look_up(foreign, LookupPurpose::Initialization)
        .await
        .result
        .unwrap();
    assert!(matches!(answer, Lookup::NotManaged { .. }));
    assert_eq!(rig.fake.calls(), 0);
}

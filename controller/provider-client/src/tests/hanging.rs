//! Calls about many objects that are not answered until their deadline.

use std::{collections::BTreeMap, sync::Arc};

use outrigger_api::v1::{self, instance_result::Outcome};
use outrigger_core::node::instance::Lookup;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    fake::{Reply, found, result},
    lookups::names,
    millis,
    rig::{Rig, node},
    secs,
};
use crate::{Error, LookupPurpose};

const PURPOSES: [LookupPurpose; 3] = [
    LookupPurpose::Initialization,
    LookupPurpose::Lifecycle,
    LookupPurpose::Refresh {
        max_staleness: secs(60),
    },
];

/// Answers after 20 ms; a call about one of `hanging` is never answered.
fn hang(rig: &Rig, hanging: &'static [&str]) {
    rig.fake.on_batch(|request| {
        let mut names = request.items.iter().map(|node| &*node.name);
        if names.any(|name| hanging.contains(&name)) {
            return Reply::Hang;
        }
        let results = request.items.iter().map(found).collect();
        let answer = v1::BatchGetInstancesResponse { results };
        Reply::After(millis(20), Box::new(Reply::Say(answer)))
    });
}

/// The results of lookups that begin together, and how long each took.
async fn look_up(
    rig: &Rig,
    purpose: LookupPurpose,
    names: impl IntoIterator<Item = String>,
) -> BTreeMap<String, (Result<Lookup, Error>, std::time::Duration)> {
    let began = Instant::now();
    let lookups = names.into_iter().map(async |name| {
        let answer = rig.provider.instances().look_up(node(&name), purpose).await;
        (name, (answer.result, began.elapsed()))
    });
    futures::future::join_all(lookups)
        .await
        .into_iter()
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_lookup_hangs_delays_the_others_by_one_deadline_once() {
    for purpose in PURPOSES {
        let rig = Rig::start();
        rig.wait_until_serving().await;
        hang(&rig, &["node-3"]);
        for longest in [secs(31), secs(1)] {
            let mut results = look_up(&rig, purpose, names(20)).await;
            let (hung, took) = results.remove("node-3").unwrap();
            let error = hung.unwrap_err();
            let text = "BatchGetInstances: the provider did not answer within 30s";
            assert_eq!(error.to_string(), text, "{purpose:?}");
            assert!(took <= secs(61), "{purpose:?}: {took:?}");
            for (name, (result, took)) in results {
                assert!(result.is_ok(), "{purpose:?} {name}: {result:?}");
                assert!(took < longest, "{purpose:?} {name}: {took:?}");
            }
        }
        // It shares calls again once it was answered.
        rig.fake.answer_nodes();
        look_up(&rig, purpose, names(20)).await;
        let before = rig.fake.calls();
        look_up(&rig, purpose, names(20)).await;
        assert_eq!(rig.fake.calls() - before, 1, "{purpose:?}");
    }
}

/// The Nodes that hang are as many as calls may be in flight: their next lookups could take every place.
#[tokio::test(start_paused = true)]
async fn nodes_whose_lookups_hang_leave_room_for_others() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    hang(&rig, &["node-0", "node-1", "node-2", "node-3", "node-4"]);
    let results = look_up(&rig, LookupPurpose::Initialization, names(20)).await;
    let answered = results.values().filter(|(result, _)| result.is_ok());
    assert_eq!(answered.count(), 15);
    let hanging = look_up(&rig, LookupPurpose::Initialization, names(5));
    let later = async {
        sleep(secs(1)).await;
        look_up(&rig, LookupPurpose::Initialization, ["late".to_owned()]).await
    };
    let (_, later) = tokio::join!(hanging, later);
    let (result, took) = &later["late"];
    assert!(result.is_ok() && *took < secs(1), "{result:?} {took:?}");
}

/// One machine after the other, 0.5 s each, also for a caller that has gone: less than a batch in the time that
/// a call has.
#[tokio::test(start_paused = true)]
async fn a_provider_that_needs_longer_than_a_deadline_for_a_batch_answers_all_in_the_end() {
    for (count, longest) in [(80, secs(90)), (400, secs(800))] {
        let rig = Rig::start();
        rig.wait_until_serving().await;
        let free = Arc::new(Mutex::new(Instant::now()));
        rig.fake.on_batch(move |request| {
            let now = Instant::now();
            let mut free = free.lock();
            *free = (*free).max(now) + millis(500) * request.items.len() as u32;
            let results = request.items.iter().map(found).collect();
            let answer = v1::BatchGetInstancesResponse { results };
            Reply::After(*free - now, Box::new(Reply::Say(answer)))
        });
        let began = Instant::now();
        // A work queue does the same: it repeats a lookup that failed.
        let lookups = names(count).map(async |name| {
            while rig.look_up(&name).await.is_err() {
                sleep(secs(5)).await;
            }
        });
        futures::future::join_all(lookups).await;
        assert!(began.elapsed() < longest, "{count}: {:?}", began.elapsed());
        // The next batches are of a size that is answered in time.
        let began = Instant::now();
        let results = look_up(&rig, PURPOSES[2], names(60)).await;
        let failed = results.values().filter(|(result, _)| result.is_err());
        assert_eq!(failed.count(), 0, "{count}");
        assert!(began.elapsed() < secs(45), "{count}: {:?}", began.elapsed());
    }
}

/// An SDK ends a batch so when its deadline comes near.
#[tokio::test(start_paused = true)]
async fn answers_count_and_the_rest_is_asked_again() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.on_batch(|request| {
        let late = outrigger_api::RpcStatus {
            code: tonic::Code::DeadlineExceeded as i32,
            message: "not in time".into(),
            details: Vec::new(),
        };
        let answer = |node: &v1::Node| match &*node.name {
            "node-3" => result(&node.name, Outcome::Error(late.clone())),
            "node-4" if request.items.len() > 1 => result(&node.name, Outcome::Error(late.clone())),
            _ => found(node),
        };
        let results = request.items.iter().map(answer).collect();
        let answer = Reply::Say(v1::BatchGetInstancesResponse { results });
        let hangs = request.items.iter().any(|node| node.name == "node-3");
        let after = if hangs { millis(28_500) } else { millis(20) };
        Reply::After(after, Box::new(answer))
    });
    let mut results = look_up(&rig, PURPOSES[0], names(20)).await;
    let (hung, _) = results.remove("node-3").unwrap();
    let text = "BatchGetInstances: the provider did not answer within 30s";
    assert_eq!(hung.unwrap_err().to_string(), text);
    assert!(
        results
            .values()
            .all(|(result, took)| result.is_ok() && *took < secs(30))
    );
    // The batch, and those two alone.
    assert_eq!(rig.fake.calls(), 3);
}

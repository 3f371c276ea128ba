//! Calls about many nodes that fail as a whole, or are not answered until their deadline.

use std::collections::BTreeMap;

use outrigger_api::v1;
use outrigger_core::node::instance::Lookup;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::{
    fake::{Reply, found, refusal},
    lookups::names,
    millis,
    rig::{Rig, node},
    secs,
};
use crate::{Error, LookupPurpose};
use outrigger_runtime::fence::Fence;

/// Answers after 20 ms; a call about one of `hanging` is never answered.
fn hang(rig: &Rig, hanging: &'static [&str]) {
    rig.fake.batch.on(|request| {
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
    names: impl IntoIterator<Item = String>,
) -> BTreeMap<String, (Result<Lookup, Error>, std::time::Duration)> {
    let began = Instant::now();
    let lookups = names.into_iter().map(async |name| {
        let instances = rig.provider.instances();
        let answer = instances.look_up(node(&name), LookupPurpose::Initialization);
        (name, (answer.await.result, began.elapsed()))
    });
    futures::future::join_all(lookups)
        .await
        .into_iter()
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_lookup_hangs_delays_the_others_by_one_deadline() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    hang(&rig, &["node-3"]);
    let mut results = look_up(&rig, names(20)).await;
    let (hung, took) = results.remove("node-3").unwrap();
    let text = "BatchGetInstances: the provider did not answer within 30s";
    assert_eq!(hung.unwrap_err().to_string(), text);
    assert!(took <= secs(61), "{took:?}");
    for (name, (result, took)) in results {
        assert!(result.is_ok(), "{name}: {result:?}");
        assert!(took < secs(31), "{name}: {took:?}");
    }
}

/// The Nodes that hang are as many as calls may be in flight: their next lookups could take every place.
#[tokio::test(start_paused = true)]
async fn nodes_whose_lookups_hang_leave_room_for_others() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    hang(&rig, &["node-0", "node-1", "node-2", "node-3", "node-4"]);
    let first = look_up(&rig, names(20));
    let later = async {
        sleep(secs(40)).await;
        look_up(&rig, ["late".to_owned()]).await
    };
    let (first, later) = tokio::join!(first, later);
    let answered = first.values().filter(|(result, _)| result.is_ok());
    assert_eq!(answered.count(), 15);
    let (result, took) = &later["late"];
    assert!(result.is_ok() && *took < secs(1), "{result:?} {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_withdraws_all_lookups() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|_| Reply::Hang);
    let fence = Fence::new(|| true, &CancellationToken::new());
    let provider = rig.provider.fenced(fence.clone());
    let began = Instant::now();
    let lookups = names(20).map(async |name| {
        let instances = provider.instances();
        let answer = instances.look_up(node(&name), LookupPurpose::Initialization);
        (answer.await.result, began.elapsed())
    });
    let stop = async {
        sleep(secs(35)).await;
        fence.stop();
    };
    let (results, ()) = tokio::join!(futures::future::join_all(lookups), stop);
    let is_withdrawn =
        |(result, took): &&(_, _)| matches!(result, Err(Error::Fenced { .. })) && *took == secs(35);
    assert_eq!(results.iter().filter(is_withdrawn).count(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_hangs_gets_few_calls_about_single_nodes() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|_| Reply::Hang);
    let results = look_up(&rig, names(100)).await;
    let late = |(result, took): &(Result<_, _>, _)| result.is_err() && *took <= secs(150);
    assert!(results.values().all(late));
    // In two minutes four times two.
    assert_eq!(rig.fake.calls(), 9);
}

/// The provider should answer for that Node alone, but one that fails the call must not fail the others.
#[tokio::test(start_paused = true)]
async fn a_node_that_fails_its_call_fails_no_other_node() {
    for refused in [
        refusal(Code::InvalidArgument, "INVALID_REQUEST", None),
        Status::not_found("no such instance"),
        // A handler that crashes.
        Status::unknown(""),
    ] {
        let rig = Rig::start();
        rig.wait_until_serving().await;
        let code = refused.code();
        rig.fake.batch.on(move |request| {
            if request.items.iter().any(|node| node.name == "node-42") {
                return Reply::Fail(refused.clone());
            }
            let results = request.items.iter().map(found).collect();
            Reply::Say(v1::BatchGetInstancesResponse { results })
        });
        let results = rig.look_up_all(names(100)).await;
        for (name, result) in names(100).zip(results) {
            assert_eq!(result.is_err(), name == "node-42", "{name}: {result:?}");
        }
        // Each of seven levels asks for two halves.
        assert!(rig.fake.calls() <= 15, "{code}: {} calls", rig.fake.calls());
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_split_for_errors_of_its_request_and_not_for_ever() {
    let cloud = refusal(Code::Internal, "CLOUD_ERROR", None);
    for (error, calls) in [
        (Status::invalid_argument("always"), 17),
        (cloud, 1),
        (Status::internal("crash"), 17),
        (Status::unavailable("cloud"), 1),
    ] {
        let rig = Rig::start();
        rig.wait_until_serving().await;
        let code = error.code();
        rig.fake.batch.on(move |_| Reply::Fail(error.clone()));
        let results = rig.look_up_all(names(100)).await;
        assert!(results.iter().all(Result::is_err));
        assert_eq!(rig.fake.calls(), calls, "{code}");
    }
}

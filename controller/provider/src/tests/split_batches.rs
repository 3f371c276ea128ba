//! A call about many nodes that fails as a whole.

use outrigger_api::v1;
use tonic::{Code, Status};

use super::{
    fake::{Reply, found, refusal},
    lookups::names,
    rig::Rig,
};

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
        rig.fake.on_batch(move |request| {
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
        rig.fake.on_batch(move |_| Reply::Fail(error.clone()));
        let results = rig.look_up_all(names(100)).await;
        assert!(results.iter().all(Result::is_err));
        assert_eq!(rig.fake.calls(), calls, "{code}");
    }
}

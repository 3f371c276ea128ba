use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use outrigger_core::error_class::ErrorClass;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status, body::Body};

use super::{
    fake::{Reply, refusal},
    rig::Rig,
    secs,
};
use crate::Error;
use outrigger_runtime::fixture::Warnings;

#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_ends_at_the_deadline_too() {
    let rig = Rig::with(|_, fake| {
        fake.bend(|response| {
            response.map(|_| {
                let nothing = futures::stream::pending::<Result<Frame<Bytes>, Status>>();
                Body::new(StreamBody::new(nothing))
            })
        });
    });
    let started = Instant::now();
    rig.reaches(|state| state.cause().is_some()).await;
    assert_eq!(started.elapsed(), secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_provider_killed_in_flight_leaves_the_outcome_open() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|_| Reply::Hang);
    let killed = async {
        sleep(secs(3)).await;
        rig.fake.kill();
    };
    let started = Instant::now();
    let (error, ()) = tokio::join!(rig.look_up("a"), killed);
    assert!(
        matches!(error, Err(Error::ConnectionLost { .. })),
        "{error:?}"
    );
    assert_eq!(error.unwrap_err().class(), ErrorClass::Transient);
    assert_eq!(started.elapsed(), secs(3));
}

#[tokio::test(start_paused = true)]
async fn statuses_of_unknown_origin_say_nothing() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    for status in [
        Status::not_found("gone"),
        Status::with_details(Code::NotFound, "no protobuf", vec![0xff, 0xff].into()),
    ] {
        let fails = status.clone();
        rig.fake.batch.on(move |_| Reply::Fail(fails.clone()));
        let error = rig.look_up("a").await.unwrap_err();
        assert!(
            matches!(error, Error::Unexplained { .. }),
            "{status:?}: {error:?}"
        );
        assert_eq!(error.class(), ErrorClass::Transient);
    }
    rig.fake.batch.on(|_| Reply::Panic);
    let error = rig.look_up("a").await.unwrap_err();
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error:?}");
    assert_eq!(rig.fake.dials(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_oversized_answer_is_an_error_and_the_connection_survives() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|request| {
        let mut answer = outrigger_api::v1::BatchGetInstancesResponse::default();
        answer.results.push(outrigger_api::v1::InstanceResult {
            key: request.items[0].name.repeat(5 << 20),
            ..Default::default()
        });
        Reply::Say(answer)
    });
    let error = rig.look_up("a").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Malformed);
    let limit = "the limit is: 1048576 bytes";
    assert!(error.to_string().contains(limit), "{error}");
    rig.fake.answer_nodes();
    rig.look_up("a").await.unwrap();
    assert_eq!(rig.fake.dials(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_know_us_is_greeted_again() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.look_up("a").await.unwrap();
    let not_handshaked = || refusal(Code::FailedPrecondition, "NOT_HANDSHAKED", None);
    rig.fake.batch.on(move |_| Reply::Fail(not_handshaked()));
    let error = rig.look_up("a").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    rig.reaches(|state| !state.serves()).await;
    rig.wait_until_serving().await;
    assert_eq!((rig.fake.dials(), rig.fake.handshake.calls().len()), (2, 2));
    // Each attempt has an id of its own.
    let batches = rig.fake.batch.calls();
    let ids = batches
        .iter()
        .map(|(_, request)| &request.context.as_ref().unwrap().request_id);
    let ids: Vec<_> = ids.collect();
    assert!(
        ids.len() == 2 && ids[0] != ids[1] && ids[0].len() == 36,
        "{ids:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_ending_is_left() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake
        .batch
        .on(|_| Reply::Fail(refusal(Code::Unavailable, "SHUTTING_DOWN", None)));
    let error = rig.look_up("a").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unavailable);
    rig.reaches(|state| !state.serves()).await;
    rig.fake.answer_nodes();
    timeout(secs(1), rig.wait_until_serving()).await.unwrap();
    assert_eq!(rig.fake.dials(), 2);
    rig.look_up("a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unserved_method_is_not_called_again_on_the_connection() {
    for status in [
        Status::unimplemented(""),
        refusal(Code::Unimplemented, "CAPABILITY_DISABLED", None),
    ] {
        let warnings = Warnings::listen();
        let rig = Rig::start();
        rig.wait_until_serving().await;
        rig.fake.batch.on(move |_| Reply::Fail(status.clone()));
        for _ in 0..3 {
            let error = rig.look_up("a").await.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Unimplemented);
        }
        assert_eq!(rig.fake.calls(), 1);
        // Said once, and not for each Node.
        assert_eq!(warnings.with("answers UNIMPLEMENTED").len(), 1);
        rig.fake.answer_nodes();
        rig.fake.kill();
        rig.fake.restart();
        rig.reaches(|state| !state.serves()).await;
        rig.wait_until_serving().await;
        rig.look_up("a").await.unwrap();
    }
}

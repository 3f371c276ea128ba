use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use outrigger_api::v1;
use outrigger_core::node::ownership::ProviderIdOwner;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tonic::{Code, Status};

use super::{
    fake::{Reply, found, refusal},
    is_down, millis,
    rig::{Rig, node},
    secs,
};
use crate::{DownCause, Error, LookupPurpose, ProviderState};
use outrigger_runtime::fixture::Warnings;

#[tokio::test(start_paused = true)]
async fn a_handshake_says_who_calls_and_its_answer_becomes_the_session() {
    let rig = Rig::with(|options, fake| {
        options.expected_name = Some("fake".into());
        fake.introduce(|answer| answer.max_receive_message_bytes = 1 << 20);
    });
    let session = rig.provider.wait_until_serving().await;
    assert_eq!((&*session.name, &*session.boot_id), ("fake", "boot-1"));
    assert_eq!((session.minor, session.max_send_bytes), (1, 1 << 20));
    let prefixes = &session.instances.as_ref().unwrap().prefixes;
    assert_eq!(prefixes.owner("fake://x"), ProviderIdOwner::Ours);
    assert_eq!(prefixes.owner("aws://x"), ProviderIdOwner::Foreign);
    let said = rig.fake.handshake.calls()[0].1.clone();
    assert_eq!((said.min_minor, said.max_minor), (1, outrigger_api::MINOR));
    assert_eq!(said.controller_name, "cloud-controller-manager");
    assert_eq!(said.kubernetes_version, "v1.36.3");
    assert_eq!(said.max_receive_message_bytes, 1 << 20);
    let cluster = said.cluster.unwrap();
    assert_eq!((&*cluster.name, &*cluster.uid), ("blue", "uid-1"));
}

#[tokio::test(start_paused = true)]
async fn a_killed_provider_is_seen_at_once_and_a_new_one_is_connected_within_a_second() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    for round in 0..20 {
        let killed = Instant::now();
        rig.fake.kill();
        let state = rig.reaches(is_down(DownCause::Disconnected)).await;
        assert_eq!(killed.elapsed(), millis(0), "{state}");
        assert!(matches!(
            rig.look_up("a").await,
            Err(Error::Unavailable { .. })
        ));
        sleep(millis(37 * round)).await;
        assert!(rig.provider.session().is_none());
        rig.fake.restart();
        let back = Instant::now();
        rig.wait_until_serving().await;
        assert!(
            back.elapsed() <= secs(1),
            "round {round}: {:?}",
            back.elapsed()
        );
        rig.look_up("a").await.unwrap();
        sleep(secs(2)).await;
    }
}

/// Each library's graceful stop is a GOAWAY, and so is the end of a connection that is old or idle. The next call finds it.
#[tokio::test(start_paused = true)]
async fn after_a_goaway_new_calls_go_out_on_a_new_connection_while_old_ones_end() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|request| {
        let slow = request.items.iter().any(|node| node.name == "slow");
        let answer = v1::BatchGetInstancesResponse {
            results: request.items.iter().map(found).collect(),
        };
        let wait = if slow { secs(20) } else { millis(0) };
        Reply::After(wait, Box::new(Reply::Say(answer)))
    });
    let warnings = Warnings::listen();
    let started = Instant::now();
    let old = async {
        rig.look_up("slow").await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 20);
    };
    let new = async {
        sleep(secs(5)).await;
        rig.fake.go_away();
        sleep(millis(1)).await;
        let ended = rig.look_up("quick").await.unwrap_err();
        assert!(matches!(ended, Error::ConnectionLost { .. }), "{ended}");
        rig.reaches(is_down(DownCause::Disconnected)).await;
        rig.wait_until_serving().await;
        rig.look_up("quick").await.unwrap();
        assert!(started.elapsed() < secs(6), "{:?}", started.elapsed());
        assert_eq!(rig.fake.dials(), 2);
    };
    tokio::join!(old, new);
    assert_eq!(rig.fake.calls(), 2, "no call reached it twice");
    let warning = "the connection to the pipe was lost";
    assert_eq!(warnings.with(warning).len(), 1, "{:?}", warnings.with(""));
}

#[tokio::test(start_paused = true)]
async fn each_reason_of_an_outage_is_logged() {
    let warnings = Warnings::listen();
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.kill();
    rig.reaches(is_down(DownCause::Disconnected)).await;
    rig.fake
        .introduce(|answer| answer.provider_version = "v".repeat(5 << 20));
    rig.fake.restart();
    sleep(secs(50)).await;
    let lines = warnings.with("provider down");
    let is_told = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    assert_eq!(
        is_told("the connection to the pipe was lost"),
        1,
        "{lines:?}"
    );
    assert_eq!(
        is_told("larger than max_receive_message_bytes"),
        1,
        "{lines:?}"
    );
}

/// By another process, or by another handshake with the same one.
#[tokio::test(start_paused = true)]
async fn a_capability_that_goes_is_reported_and_its_return_starts_what_waited() {
    let warnings = Warnings::listen();
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let restarts = Arc::new(AtomicUsize::new(0));
    let (provider, count) = (rig.provider.clone(), Arc::clone(&restarts));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let again = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        provider.each_restart(again).await;
    });
    sleep(millis(1)).await;
    let without = |answer: &mut v1::HandshakeResponse| {
        answer.capabilities.as_mut().unwrap().instances = None;
    };
    rig.fake.introduce(without);
    rig.fake.go_away();
    let degraded = |state: &ProviderState| matches!(state, ProviderState::Degraded { .. });
    let state = rig.reaches(degraded).await.to_string();
    assert!(state.contains("declared before: instances;"), "{state}");
    sleep(secs(30)).await;
    assert_eq!(rig.provider.state().borrow().to_string(), state);
    assert_eq!(warnings.with("declared before: instances").len(), 1);
    assert_eq!(restarts.load(Ordering::Relaxed), 0, "nothing can be done");

    rig.fake.introduce(|_| {});
    rig.fake.go_away();
    rig.reaches(|state| *state == ProviderState::Ready).await;
    sleep(millis(1)).await;
    assert_eq!(restarts.load(Ordering::Relaxed), 1, "the same boot_id");
}

#[tokio::test(start_paused = true)]
async fn a_missing_provider_is_waited_for_and_named() {
    let rig = Rig::with(|_, fake| fake.kill());
    let state = rig.reaches(is_down(DownCause::Disconnected)).await;
    assert!(
        state
            .to_string()
            .contains("no provider answers at the pipe"),
        "{state}"
    );
    let error = rig.look_up("a").await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no provider answers at the pipe"),
        "{error}"
    );
    sleep(secs(600)).await;
    assert!(rig.fake.dials() < 1300, "{} dials", rig.fake.dials());
    rig.fake.restart();
    timeout(secs(1), rig.wait_until_serving()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_provider_is_asked_again_each_minute() {
    let rig = Rig::with(|options, fake| {
        options.expected_name = Some("fake".into());
        fake.introduce(|answer| answer.provider_name = "other".into());
    });
    let started = Instant::now();
    let state = rig.reaches(is_down(DownCause::WrongName)).await.to_string();
    assert!(state.contains("--cloud-provider is fake"), "{state}");
    assert!(rig.provider.session().is_none());
    let lookup = rig.look_up("a").await;
    assert!(matches!(lookup, Err(Error::Unavailable { .. })));
    sleep(secs(90)).await;
    assert_eq!(rig.fake.handshake.calls().len(), 2);
    rig.fake.introduce(|_| {});
    rig.wait_until_serving().await;
    let took = started.elapsed();
    assert!(took >= secs(120) && took < secs(121), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_fails_says_why() {
    let fails = |reply: fn() -> Reply<v1::HandshakeResponse>| {
        let rig = Rig::with(move |_, fake| fake.handshake.on(move |_| reply()));
        async move { rig.reaches(|state| state.cause().is_some()).await }
    };
    let started = Instant::now();
    let state = fails(|| Reply::Fail(Status::unimplemented(""))).await;
    assert_eq!(state.cause(), Some(DownCause::Incompatible));
    assert!(
        state
            .to_string()
            .contains("does not serve cloudprovider.v1"),
        "{state}"
    );
    let state = fails(|| {
        Reply::Fail(refusal(
            Code::FailedPrecondition,
            "VERSION_UNSUPPORTED",
            None,
        ))
    });
    let state = state.await;
    assert_eq!(state.cause(), Some(DownCause::Incompatible));
    assert!(
        state.to_string().contains("because of VERSION_UNSUPPORTED"),
        "{state}"
    );
    let state = fails(|| Reply::Fail(Status::internal("oh\nno"))).await;
    assert_eq!(state.cause(), Some(DownCause::Disconnected));
    assert!(state.to_string().contains("oh\\nno"), "{state}");
    assert_eq!(started.elapsed(), secs(0));
    let state = fails(|| Reply::Hang).await;
    assert_eq!(state.cause(), Some(DownCause::Silent));
    assert_eq!(started.elapsed(), secs(10));
}

#[tokio::test(start_paused = true)]
async fn the_work_ends_when_cancelled_and_all_callers_get_an_error() {
    let mut rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|_| Reply::Hang);
    let provider = rig.provider.clone();
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(async move {
        provider
            .instances()
            .look_up(node("a"), LookupPurpose::Initialization)
            .await
            .result
    });
    sleep(secs(1)).await;
    rig.cancel.cancel();
    timeout(secs(1), rig.tasks.join_next()).await.unwrap();
    let sent = waiting.join_next().await.unwrap().unwrap();
    assert!(matches!(sent, Err(Error::Unavailable { .. })), "{sent:?}");
    let late = rig.look_up("b").await;
    assert!(matches!(late, Err(Error::Unavailable { .. })), "{late:?}");
}

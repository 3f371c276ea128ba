//! Providers that are slow, gone or wrong, and the consequences for other Services.

use std::time::Duration;

use futures::future::join_all;
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault};
use outrigger_testbed::nodes::Machine;
use serde_json::json;
use tonic::Code;

use super::{DELETE, ENSURE, MADE, quick};
use crate::{
    cluster::services::{annotation, load_balancer},
    look::{services::condition, uid},
    mock::load_balancers::{about, error},
    wait::{holds, stays, until},
};

/// All calls that a provider gets at a time by default, except one, are stuck.
#[tokio::test]
async fn services_that_are_stuck_hold_up_no_other() {
    const STUCK: usize = 15;
    let stage = quick(&[]).start().await;
    let before = stage.serve(load_balancer("before")).await;
    for n in 0..STUCK {
        let stuck = Effect::Hang { duration: None };
        stage
            .mock
            .inject(about(ENSURE, &format!("stuck-{n}"), stuck))
            .await;
    }
    let mut stuck = Vec::new();
    for n in 0..STUCK {
        stuck.push(
            stage
                .create_service(load_balancer(&format!("stuck-{n}")))
                .await,
        );
    }
    stage
        .service_that("stuck-14", "is under way", |service| {
            condition(service, "Provisioned") == ("False", "Pending")
        })
        .await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    stage.register(&Machine::new("new").initialized()).await;
    for service in [&before, &service] {
        stage
            .mock
            .sends_to(uid(service), &["n-00000", "n-00001", "new"])
            .await;
    }
    stage.delete_service("before").await;
    stage.service_is_gone("before").await;
    stage.mock.clear().await;
    for n in 0..STUCK {
        stage.served(&format!("stuck-{n}")).await;
    }
    for service in &stuck {
        stage
            .mock
            .sends_to(uid(service), &["n-00000", "n-00001", "new"])
            .await;
    }
}

/// An hour without it is as a second: what happened meanwhile is done afterwards, and no Service
/// gets an event about all of them.
#[tokio::test]
async fn a_provider_that_was_gone_finds_everything_that_happened_meanwhile() {
    let state = tempfile::tempdir().unwrap();
    let state = format!("--state={}", state.path().join("state.json").display());
    let mut stage = quick(&[&state, "--state-interval=10ms", "--state-sync"])
        .start()
        .await;
    let kept = stage.serve(load_balancer("kept")).await;
    let deleted = stage.serve(load_balancer("deleted")).await;
    let turned = stage.serve(load_balancer("turned")).await;
    stage.mock.kill().await;
    stage.controller.says(&["provider down"]).await;
    stage.delete_service("deleted").await;
    stage
        .change_service("turned", json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let ports = json!([{"name": "http", "protocol": "TCP", "port": 81}]);
    stage
        .change_service("kept", json!({"spec": {"ports": ports}}))
        .await;
    let made = stage.create_service(load_balancer("made")).await;
    stage.register(&Machine::new("new").initialized()).await;
    stays("it waits", Duration::from_secs(1), async || {
        let there = stage.services().get_opt("deleted").await.unwrap();
        holds(there.is_some(), || "it is gone".to_owned())
    })
    .await;
    stage.restart_mock().await;
    stage.service_is_gone("deleted").await;
    stage.served("made").await;
    stage.sees_ports(uid(&kept), &[81]).await;
    stage.mock.has_none_of(uid(&turned)).await;
    for service in [&kept, &made] {
        stage
            .mock
            .sends_to(uid(service), &["n-00000", "n-00001", "new"])
            .await;
    }
    let mut left = [uid(&kept), uid(&made)];
    left.sort_unstable();
    assert_eq!(stage.mock.owners().await, left);
    for service in [&kept, &deleted, &turned, &made] {
        let reasons = stage.reasons_of(service).await;
        assert!(
            !reasons.contains(&"SyncLoadBalancerFailed".to_owned()),
            "{reasons:?}"
        );
    }
}

/// A failure that concerns all alike is logged once. Services whose calls met it have a Warning, not those that wait.
#[tokio::test]
async fn credentials_that_are_refused_are_no_services_fault() {
    let mut stage = quick(&[]).start().await;
    stage.serve(load_balancer("before")).await;
    let refused = error(Code::Unauthenticated, "CREDENTIALS_INVALID", "who are you?");
    stage
        .mock
        .inject(Fault::on(ENSURE, Effect::Error(refused)))
        .await;
    let mut services = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        services.push(stage.create_service(load_balancer(name)).await);
    }
    stage.mock.was_called(ENSURE, 2).await;
    stage.controller.says(&["who are you?"]).await;
    let mut warned = 0;
    for service in &services {
        let reasons = stage.reasons_of(service).await;
        warned += usize::from(reasons.contains(&"SyncLoadBalancerFailed".to_owned()));
    }
    assert!(warned < services.len(), "{warned}");
}

/// For every answer: no load balancer is taken for gone that is not, and the controller survives.
#[tokio::test]
async fn nonsense_about_a_load_balancer_makes_an_event_and_is_not_believed() {
    let mut stage = quick(&[]).start().await;
    let pid = stage.controller.pid();
    for (name, bad, words) in [
        ("malformed", BadAnswer::MalformedAddress, "999.0.2.1/33"),
        ("oversized", BadAnswer::OversizedStrings, "hhh"),
        ("empty", BadAnswer::Empty, "disposition UNSPECIFIED"),
        (
            "undisposed",
            BadAnswer::MissingDisposition,
            "disposition UNSPECIFIED",
        ),
    ] {
        let bad = about(ENSURE, name, Effect::BadAnswer(bad));
        stage.mock.inject(bad.times(1)).await;
        let service = stage.create_service(load_balancer(name)).await;
        let event = stage.event(&service, "SyncLoadBalancerFailed").await;
        let message = event.message.unwrap();
        assert!(
            message.contains(words) && message.len() < 600,
            "{name}: {message}"
        );
        stage
            .change_service(name, annotation("mock.example/note", "a"))
            .await;
        stage.served(name).await;
    }
    let deletions = [
        ("deleted-empty", BadAnswer::Empty),
        ("deleted-undisposed", BadAnswer::MissingDisposition),
    ];
    let deletions = deletions.map(async |(name, bad)| {
        let service = stage.serve(load_balancer(name)).await;
        let bad = about(DELETE, name, Effect::BadAnswer(bad));
        stage.mock.inject(bad.times(1)).await;
        stage.delete_service(name).await;
        let event = stage.event(&service, "SyncLoadBalancerFailed").await;
        let message = event.message.unwrap();
        assert!(
            message.contains("disposition UNSPECIFIED"),
            "{name}: {message}"
        );
        stage.service_is_gone(name).await;
        stage.mock.has_none_of(uid(&service)).await;
    });
    join_all(deletions).await;
    assert_eq!(stage.controller.pid(), pid);
}

/// The largest wait that a provider can ask for is five minutes, and a change ends it.
#[tokio::test]
async fn a_provider_that_asks_for_a_thousand_hours_is_asked_again_when_the_service_changes() {
    let stage = quick(&[]).start().await;
    let far = Effect::BadAnswer(BadAnswer::FarRetry);
    stage.mock.inject(about(ENSURE, "web", far).times(1)).await;
    stage.create_service(load_balancer("web")).await;
    stage.mock.was_called(ENSURE, 1).await;
    stage
        .change_service("web", annotation("mock.example/note", "a"))
        .await;
    stage.served("web").await;
}

/// Two hundred at once, with everything as it is by default.
#[tokio::test]
async fn two_hundred_services_at_once_have_one_load_balancer_each() {
    let setup = crate::stage::Setup::mock(&["--latency=20ms"])
        .flag("--controllers=service-lb-controller")
        .machines(super::fleet(2));
    let stage = setup.start().await;
    let uids = stage.serve_many(200).await;
    let mut sorted = uids.clone();
    sorted.sort_unstable();
    assert_eq!(stage.mock.owners().await, sorted);
    assert_eq!(stage.mock.changes().await, [200, 0, 0]);
    until("two writes for each", async || {
        let patches = stage.writes();
        let patches = patches
            .iter()
            .filter(|write| write.starts_with("PATCH /api/v1/namespaces/default/services"));
        let patches = patches.count();
        holds(patches == 400, || format!("{patches}"))
    })
    .await;
}

//! Answers that must be neither wrong for ever nor silent, and those of a half-written provider: it declares load balancers
//! and answers UNIMPLEMENTED to a method.

use outrigger_provider_mock::ServedLoadBalancers;

use super::*;
use outrigger_runtime::fixture::Warnings;

/// Such as annotations that are too large together with those of a user.
#[tokio::test(start_paused = true)]
async fn effects_that_the_api_server_never_takes_cost_neither_an_address_nor_further_calls() {
    let mut setup = Setup::default();
    setup.provider.load_balancers = Some(ServedLoadBalancers {
        effects: true,
        ..ServedLoadBalancers::default()
    });
    setup.cluster.deny("status.mock.example/id");
    let rig = Rig::with(setup).await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    secs(600).await;
    assert_eq!(rig.mutations(), 1);
    let dropped = "outrigger_service_effects_dropped_total 2";
    assert!(rig.metrics().contains(dropped), "{}", rig.metrics());
    let said = rig.cluster.event_messages().join("\n");
    let why = r#""status.mock.example/id" and 1 more: the API server does not take it"#;
    assert!(said.contains(why), "{said}");
}

/// One cause, in the words of one request each time: one line and then one a minute, and an event on each Service.
#[tokio::test(start_paused = true)]
async fn a_failure_of_many_services_is_one_line() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    for n in 0..100 {
        let said = format!("RuntimeException (RequestID: req-{n:08})");
        let crash = InjectedError::new(tonic::Code::Unknown)
            .without_reason()
            .with_message(&said);
        let fault = Fault::on(Method::EnsureLoadBalancer, Effect::Error(crash));
        let name = format!("shop/web-{n}");
        rig.cloud.inject(fault.for_service(&name));
        rig.cluster.create_service(service(&format!("web-{n}")));
    }
    secs(150).await;
    let calls = rig.calls("EnsureLoadBalancer");
    assert!(calls >= 400, "{calls}");
    let lines = warnings.with("RuntimeException");
    assert!((2..=4).contains(&lines.len()), "{} lines", lines.len());
    let failed = rig.events();
    let failed = failed.iter().filter(|e| *e == "SyncLoadBalancerFailed");
    assert!(failed.count() >= 100);
}

#[tokio::test(start_paused = true)]
async fn values_of_users_make_no_causes_of_lines() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    for n in 0..10 {
        let mut web = service(&format!("web-{n}"));
        web["spec"]["loadBalancerSourceRanges"] = json!([format!("range-{n}")]);
        rig.cluster.create_service(web);
    }
    secs(30).await;
    let lines = warnings.with("load balancer call failed");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(failed(&rig) >= 10);
}

/// Error with which a gRPC library answers for a method that the provider lacks.
fn unimplemented() -> InjectedError {
    InjectedError::new(tonic::Code::Unimplemented).without_reason()
}

fn failed(rig: &Rig) -> usize {
    let events = rig.events();
    let failed = events
        .iter()
        .filter(|event| *event == "SyncLoadBalancerFailed");
    failed.count()
}

/// The one warning about a method that is missing.
fn reported(warnings: &Warnings, method: &str) {
    let lines = warnings.with("answers UNIMPLEMENTED to a method of it");
    assert!(
        lines.len() == 1 && lines[0].contains(method),
        "{method}: {lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_ensure_a_service_says_so_and_is_tried_again() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    rig.fail(Method::EnsureLoadBalancer, unimplemented());
    rig.cluster.create_service(service("web"));
    let times = call_times(&rig, "EnsureLoadBalancer", 100).await;
    assert_eq!(times, [0, 5, 15, 35, 75]);
    reported(&warnings, "EnsureLoadBalancer");
    assert!(failed(&rig) > 0);
    let (status, reason) = rig.condition(WEB, "Provisioned").unwrap();
    assert_eq!((&*status, &*reason), ("False", "Unimplemented"));
    // The other Service is asked for, though the method was missing for the first.
    rig.cloud.clear_faults();
    rig.cluster.create_service(service("db"));
    rig.ready("shop/db").await;
    rig.ready(WEB).await;
}

#[tokio::test(start_paused = true)]
async fn without_updates_targets_change_with_ensure() {
    let warnings = Warnings::listen();
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.fail(Method::UpdateLoadBalancerNodes, unimplemented());
    for (gone, left) in [("n3", 9), ("n4", 8), ("n5", 7)] {
        rig.leave(gone);
        rig.until("its targets", |rig| rig.targets().len() == left)
            .await;
    }
    secs(600).await;
    assert_eq!(rig.calls("UpdateLoadBalancerNodes"), 1);
    assert_eq!(rig.calls("EnsureLoadBalancer"), 4);
    reported(&warnings, "UpdateLoadBalancerNodes");
    assert_eq!(failed(&rig), 0);
    let (status, _) = rig.condition(WEB, "TargetsInSync").unwrap();
    assert_eq!(status, "True");
}

#[tokio::test(start_paused = true)]
async fn without_node_sets_calls_carry_the_nodes() {
    let warnings = Warnings::listen();
    let rig = Rig::with(Setup::default()).await;
    rig.fail(Method::SyncNodeSet, unimplemented());
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    assert_eq!(rig.targets().len(), 10);
    rig.leave("n3");
    rig.until("its targets", |rig| rig.targets().len() == 9)
        .await;
    assert_eq!(rig.calls("SyncNodeSet"), 1);
    reported(&warnings, "SyncNodeSet");
    assert_eq!(failed(&rig), 0);
}

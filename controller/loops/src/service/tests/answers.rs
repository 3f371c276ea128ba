//! Answers that must be neither wrong for ever nor silent.

use outrigger_provider_mock::{ServedLoadBalancers, faults::BadAnswer};

use super::*;
use outrigger_runtime::fixture::Warnings;

/// The provider is another version, which answers otherwise.
#[tokio::test(start_paused = true)]
async fn one_that_is_managed_again_gets_its_nodes_from_the_next_provider_on() {
    let rig = with_services(1, Setup::default()).await;
    let refuses = Fault::on(
        Method::EnsureLoadBalancer,
        Effect::BadAnswer(BadAnswer::NotManaged),
    );
    rig.cloud.inject(refuses);
    rig.cluster.change_service("shop/web-0", |web| {
        web["spec"]["ports"][0]["port"] = json!(81);
    });
    rig.until("the event", |rig| {
        let events = rig.events();
        events.iter().any(|e| e.contains("LoadBalancerNotManaged"))
    })
    .await;
    let (status, reason) = rig.condition("shop/web-0", "Accepted").unwrap();
    assert_eq!((&*status, &*reason), ("False", "NotManaged"));
    rig.leave("n1");
    secs(60).await;
    assert_eq!(rig.targets().len(), 10, "left as it is");
    rig.cloud.clear_faults();
    let rig = rig.restart().await;
    rig.until("the nodes", |rig| rig.targets().len() == 10)
        .await;
    rig.leave("n2");
    rig.until("the nodes", |rig| rig.targets().len() == 9).await;
}

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

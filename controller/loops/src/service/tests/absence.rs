//! Conditions and events that users read while the provider is away.

use std::sync::Arc;

use outrigger_core::service::capability::Capability;

use super::*;

/// Settled Services are left alone: a cluster of 10,000 is not written for an outage of a minute.
#[tokio::test(start_paused = true)]
async fn a_service_says_that_it_waits_for_the_provider() {
    let rig = Rig::start().await;
    for n in 0..5 {
        rig.cluster.create_service(service(&format!("web-{n}")));
        rig.ready(&format!("shop/web-{n}")).await;
    }
    for method in [Method::GetStatus, Method::Handshake] {
        let silent = Effect::Hang { duration: None };
        rig.cloud.inject(Fault::on(method, silent));
    }
    // Until the heartbeat has noticed.
    secs(120).await;
    let before = (rig.mutations(), rig.writes());
    rig.cluster.create_service(service("web"));
    secs(45).await;
    assert_eq!(rig.mutations(), before.0);
    let waiting = rig.condition(WEB, "Waiting").unwrap();
    assert_eq!(waiting, ("True".into(), "ProviderUnavailable".into()));
    secs(600).await;
    let events = rig
        .events()
        .iter()
        .filter(|event| *event == "WaitingForProvider")
        .count();
    assert_eq!((rig.writes(), events), (before.1 + 1, 1), "once, on one");
    rig.cloud.clear_faults();
    rig.ready(WEB).await;
    assert_eq!(rig.condition(WEB, "Waiting"), None);
}

/// There may be many to write, and the provider back before the last of them.
#[tokio::test(start_paused = true)]
async fn nothing_is_said_once_the_provider_is_back() {
    let rig = Rig::with(Setup {
        leads: false,
        ..Setup::default()
    })
    .await;
    rig.cluster.create_service(service("web"));
    secs(1).await;
    let service_lb = rig.idle().await;
    let capability = Capability {
        provider: "mock".into(),
        ..Capability::default()
    };
    let absence = &service_lb.absence;
    absence.mark_waiting(&Arc::new(capability)).await;
    assert_eq!(rig.writes(), 0);
}

/// It has no finalizer yet.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_desire_for_a_load_balancer() {
    let rig = Rig::start().await;
    let mut paused = service("web");
    paused["metadata"]["annotations"] = json!({"outrigger.dev/paused": "true"});
    rig.cluster.create_service(paused);
    secs(1).await;
    assert_eq!(rig.condition(WEB, "Waiting").unwrap().1, "Paused");
    rig.cluster
        .change_service(WEB, |web| web["spec"]["type"] = json!("ClusterIP"));
    secs(1).await;
    assert_eq!(rig.condition(WEB, "Waiting"), None);
    assert_eq!(rig.mutations(), 0);
    // A Service that changed while no controller ran.
    rig.cluster.change_service(WEB, |web| {
        web["status"]["conditions"] = json!([{
            "type": "outrigger.dev/Waiting", "status": "True", "reason": "Paused", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
    });
    let rig = rig.restart().await;
    secs(1).await;
    assert_eq!(rig.condition(WEB, "Waiting"), None);
}

//! Conditions and events that users read while the provider is away.

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
    let told = rig
        .events()
        .iter()
        .filter(|event| *event == "WaitingForProvider")
        .count();
    assert_eq!((rig.writes(), told), (before.1 + 1, 1), "once, on one");
    rig.cloud.clear_faults();
    rig.ready(WEB).await;
    assert_eq!(rig.condition(WEB, "Waiting"), None);
}

//! Ensures that no change asks for: they leave places to changes, and each Service is open to changes until its own.

use super::*;
use outrigger_kube::store::Origin;

/// A Service as upstream's controller leaves it: with finalizer and addresses, without our record.
pub(super) fn adopted(name: &str) -> serde_json::Value {
    let mut adopted = service(name);
    adopted["metadata"]["finalizers"] = json!(["service.kubernetes.io/load-balancer-cleanup"]);
    adopted["status"]["loadBalancer"]["ingress"] = json!([{"ip": "198.18.0.1", "ipMode": "VIP"}]);
    adopted
}

/// First start over a cluster of upstream's: nodes that came or left do not wait, nor do new Services.
#[tokio::test(start_paused = true)]
async fn bulk_ensures_come_after_targets_and_leave_places_to_changes() {
    let setup = Setup {
        cloud: cloud(|config| config.latency = Duration::from_secs(5)),
        ..Setup::default()
    };
    for n in 0..20 {
        setup.cluster.create_service(adopted(&format!("web-{n}")));
    }
    let rig = Rig::with(setup).await;
    // The nodes may be others than upstream's controller has given them.
    rig.until("updates", |rig| rig.calls("UpdateLoadBalancerNodes") > 0)
        .await;
    assert_eq!(rig.calls("EnsureLoadBalancer"), 0);
    secs(14).await;
    let updates = rig.calls("UpdateLoadBalancerNodes");
    rig.leave("n1");
    rig.until("updates", |rig| {
        rig.calls("UpdateLoadBalancerNodes") > updates
    })
    .await;
    // New ones do not wait behind them.
    let began = Instant::now();
    rig.cluster.create_service(service("web"));
    rig.until("a new one", |rig| {
        rig.condition(WEB, "Provisioned")
            .is_some_and(|c| c.0 == "True")
    })
    .await;
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    secs(200).await;
    assert_eq!(rig.calls("EnsureLoadBalancer"), 21);
}

/// 20 Services that wait for eight others, half of the places, whose calls take a minute.
async fn waiting(setup: Setup) -> Rig {
    for n in 0..8 {
        setup.cluster.create_service(adopted(&format!("slow-{n}")));
        let slow = Effect::Hang {
            duration: Some(Duration::from_mins(1)),
        };
        let slow = Fault::on(Method::EnsureLoadBalancer, slow);
        setup
            .cloud
            .inject(slow.for_service(&format!("shop/slow-{n}")));
    }
    let rig = Rig::with(setup).await;
    secs(1).await;
    for n in 0..20 {
        let name = format!("web-{n}");
        rig.cluster.create_service(adopted(&name));
        // A list brings it: one that the watch brings goes before bulk work.
        let listed = rig.cluster.service(&format!("shop/{name}")).unwrap();
        let listed = serde_json::from_value(listed).unwrap();
        rig.services.apply(listed, Origin::List);
    }
    secs(1).await;
    rig
}

/// Names of Services whose record says that they are not settled yet.
fn not_settled(rig: &Rig) -> Vec<String> {
    let names = (0..20).map(|n| format!("shop/web-{n}"));
    let is_open = |name: &String| {
        let Some(service) = rig.cluster.service(name) else {
            return false;
        };
        let record = &service["metadata"]["annotations"]["outrigger.dev/last-applied"];
        record.as_str().is_none_or(|record| record.ends_with('/'))
    };
    names.filter(is_open).collect()
}

#[tokio::test(start_paused = true)]
async fn a_service_that_waits_is_open_to_changes() {
    let rig = waiting(Setup::default()).await;
    assert_eq!(not_settled(&rig).len(), 20);
    let [edited, deleted, paused] = ["shop/web-3", "shop/web-4", "shop/web-5"];
    rig.cluster.change_service(edited, |service| {
        service["spec"]["ports"][0]["port"] = json!(81);
    });
    rig.cluster.delete_service(deleted);
    rig.cluster.change_service(paused, |service| {
        service["metadata"]["annotations"]["outrigger.dev/paused"] = json!("true");
    });
    secs(2).await;
    let waits = not_settled(&rig);
    assert!(!waits.contains(&edited.into()), "its change did not wait");
    assert!(rig.cluster.service(deleted).is_none(), "nor its deletion");
    assert_eq!(waits.len(), 18);
    secs(300).await;
    assert_eq!(not_settled(&rig), [paused]);
    rig.cluster.change_service(paused, |service| {
        service["metadata"]["annotations"]["outrigger.dev/paused"] = json!(null);
    });
    secs(30).await;
    assert!(not_settled(&rig).is_empty());
}

#[tokio::test(start_paused = true)]
async fn bulk_calls_leave_a_worker_to_those_who_ask_for_something() {
    let mut setup = Setup::default();
    setup.settings.workers = 2;
    let rig = waiting(setup).await;
    let [edited, deleted] = ["shop/web-3", "shop/web-4"];
    rig.cluster.change_service(edited, |service| {
        service["spec"]["ports"][0]["port"] = json!(81);
    });
    rig.cluster.delete_service(deleted);
    rig.cluster.create_service(service("new"));
    secs(5).await;
    let waits = not_settled(&rig);
    assert!(!waits.contains(&edited.into()), "its change did not wait");
    assert!(rig.cluster.service(deleted).is_none(), "nor its deletion");
    assert!(
        rig.condition("shop/new", "Provisioned").is_some(),
        "nor a new one"
    );
    assert_eq!(waits.len(), 18, "the slow calls are not over");
}

/// Without a session it is not known what the provider reads of a Service.
#[tokio::test(start_paused = true)]
async fn an_edit_while_the_provider_is_away_does_not_wait() {
    let rig = waiting(Setup::default()).await;
    for n in (0..20).filter(|n| *n != 13) {
        let slow = Effect::Hang {
            duration: Some(Duration::from_mins(1)),
        };
        let slow = Fault::on(Method::EnsureLoadBalancer, slow);
        rig.cloud.inject(slow.for_service(&format!("shop/web-{n}")));
    }
    rig.wire.cut();
    secs(5).await;
    let edited = "shop/web-13";
    rig.cluster.change_service(edited, |service| {
        service["spec"]["ports"][0]["port"] = json!(81);
    });
    secs(5).await;
    assert_eq!(not_settled(&rig).len(), 20);
    rig.wire.mend();
    secs(10).await;
    assert!(!not_settled(&rig).contains(&edited.into()));
    assert_eq!(not_settled(&rig).len(), 19);
}

/// To a provider that takes one call at a time, new Services go before all bulk work that waits.
#[tokio::test(start_paused = true)]
async fn bulk_work_takes_no_call_from_a_change() {
    let setup = Setup {
        cloud: cloud(|config| config.latency = Duration::from_secs(5)),
        ..Setup::one_call_at_a_time()
    };
    for n in 0..20 {
        setup.cluster.create_service(adopted(&format!("web-{n}")));
    }
    let rig = Rig::with(setup).await;
    secs(12).await;
    let before = rig.calls("EnsureLoadBalancer");
    let names = ["new-0", "new-1", "new-2", "new-3"];
    for name in names {
        rig.cluster.create_service(service(name));
    }
    for name in names {
        rig.ready(&format!("shop/{name}")).await;
    }
    // The one that was in flight has ended meanwhile, and another may be in flight by now.
    let calls = rig.calls("EnsureLoadBalancer") - before;
    assert!(calls <= 5, "{calls}");
    secs(300).await;
    assert!(not_settled(&rig).is_empty());
}

/// A call that could begin only after the end would keep the process from ending.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_services_that_wait() {
    let rig = waiting(Setup::default()).await;
    rig.stop().await;
    secs(120).await;
    assert_eq!(not_settled(&rig).len(), 20);
}

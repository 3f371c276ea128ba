//! Services that go, and load balancers in the cloud that no Service wants.

use std::sync::Arc;

use outrigger_core::{
    error_class::ErrorClass,
    forbidden_addresses::ForbiddenAddresses,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerCall, RawAnswer},
        capability::Capability,
        last_applied::LastApplied,
    },
};
use outrigger_provider_mock::{ServedLoadBalancers, load_balancers::LoadBalancer};

use super::{applied::annotation, *};

fn strip(rig: &Rig, key: &str) {
    rig.cluster.change_service(key, |service| {
        service["metadata"]["finalizers"] = json!([]);
    });
}

/// Never on doubt: a list that does not show a Service is no proof.
#[tokio::test(start_paused = true)]
async fn a_list_alone_deletes_nothing() {
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    rig.services.finish_list(|_| false);
    secs(60).await;
    assert_eq!(rig.calls("DeleteLoadBalancer"), 0);
    assert_eq!(rig.cloud.load_balancers().len(), 1);
}

/// The leader clears away, and the next one does not do it again.
#[tokio::test(start_paused = true)]
async fn a_standby_leaves_deletions_to_its_leader() {
    let leader = Rig::start().await;
    let standby = Rig::with(Setup {
        cluster: leader.cluster.clone(),
        cloud: leader.cloud.clone(),
        lease: leader.lease.clone(),
        leads: false,
        ..Setup::default()
    })
    .await;
    leader.cluster.create_service(service("web"));
    leader.ready(WEB).await;
    leader.cluster.delete_service(WEB);
    leader
        .until("its end", |rig| rig.cluster.service(WEB).is_none())
        .await;
    secs(5).await;
    let before = (leader.mutations(), leader.events());
    assert_eq!(before.0, 2);
    leader.stop().await;
    standby.lead().await;
    secs(60).await;
    assert_eq!((standby.mutations(), standby.events()), before);
}

/// A Service that is taken away by force while its load balancer is being deleted, for five seconds.
async fn vanishing(rig: &Rig) {
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    let slow = Effect::Hang {
        duration: Some(Duration::from_secs(5)),
    };
    let slow = Fault::on(Method::DeleteLoadBalancer, slow);
    rig.cloud.inject(slow.times(1));
    rig.cluster.delete_service(WEB);
    secs(1).await;
    strip(rig, WEB);
    assert!(rig.cluster.service(WEB).is_none());
}

/// S-60: what was under way when it vanished says whether there is more to do.
#[tokio::test(start_paused = true)]
async fn a_service_that_vanishes_while_its_deletion_fails_leaves_nothing() {
    let rig = Rig::start().await;
    let fails = Fault::on(Method::DeleteLoadBalancer, Effect::Error(trouble()));
    rig.cloud.inject(fails.times(1));
    vanishing(&rig).await;
    rig.until("its end", |rig| rig.cloud.load_balancers().is_empty())
        .await;
    secs(1).await;
    let events = rig.events();
    assert_eq!(
        events[events.len() - 2..],
        ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    );
}

fn drifting() -> Setup {
    let mut setup = Setup::default();
    setup.settings.drift_period = Some(Duration::from_mins(5));
    setup
}

/// A provider ends an update that it has begun, though the leader that asked for it is gone.
#[tokio::test(start_paused = true)]
async fn a_write_of_the_leader_before_that_lands_late_is_repaired() {
    let rig = with_services(2, Setup::default()).await;
    rig.until("all have the nodes", |rig| annotation(rig).is_some())
        .await;
    let before = LoadBalancer::clone(&rig.cloud.load_balancers()[1]);
    let rig = rig.restart().await;
    rig.leave("n1");
    let has_left = |lb: &Arc<LoadBalancer>| lb.targets.len() == 9;
    rig.until("the Node is no target", |rig| {
        rig.cloud.load_balancers().iter().all(has_left)
    })
    .await;
    rig.cloud.edit_load_balancer(before).unwrap();
    secs(130).await;
    let all = rig.cloud.load_balancers();
    assert!(all.iter().all(has_left), "{all:?}");
    assert_eq!(rig.calls("GetLoadBalancer"), 2);
}

/// Reported, and never deleted.
#[tokio::test(start_paused = true)]
async fn orphans_are_counted() {
    let rig = Rig::with(drifting()).await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    secs(310).await;
    let orphans = |count| format!("outrigger_service_orphaned_load_balancers {count}");
    assert!(rig.metrics().contains(&orphans(0)));
    // Another client removes the Service while no replica leads.
    rig.stop().await;
    rig.cluster.change_service(WEB, |web| {
        web["metadata"]["finalizers"] = json!([]);
        web["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    });
    let rig = rig.restart_with(drifting()).await;
    secs(310).await;
    assert!(rig.metrics().contains(&orphans(1)));
    assert_eq!(rig.calls("DeleteLoadBalancer"), 0);
}

/// The class of calls is paused: the deletion has not begun.
#[tokio::test(start_paused = true)]
async fn the_event_of_a_deletion_comes_when_its_call_goes_out() {
    let rig = Rig::start().await;
    rig.cluster.create_service(service("web"));
    rig.ready(WEB).await;
    let limited = InjectedError::new(tonic::Code::ResourceExhausted)
        .with_reason("RATE_LIMITED")
        .retry_after(Duration::from_mins(1));
    rig.cloud
        .inject(Fault::on(Method::EnsureLoadBalancer, Effect::Error(limited)).times(1));
    rig.cluster.create_service(service("other"));
    secs(1).await;
    rig.cluster.delete_service(WEB);
    secs(30).await;
    let is_recorded = |rig: &Rig| rig.events().contains(&"DeletingLoadBalancer".to_owned());
    assert!(!is_recorded(&rig));
    rig.until("its end", |rig| rig.cluster.service(WEB).is_none())
        .await;
    assert!(is_recorded(&rig));
}

fn serving(load_balancers: ServedLoadBalancers) -> Setup {
    Setup {
        leads: false,
        ..Setup::serving(load_balancers)
    }
}

/// A deletion may wait for minutes before its call goes out.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_answered_by_a_provider_without_the_class_proves_nothing() {
    let rig = Rig::with(serving(ServedLoadBalancers {
        classes: vec!["example.com/fast".into()],
        without_default_class: true,
        ..ServedLoadBalancers::default()
    }))
    .await;
    let lb = rig.idle().await;
    let now = lb.decisions.capability().unwrap();
    let before = Arc::new(Capability {
        without_default_class: false,
        ..Capability::clone(&now)
    });
    let mut web: ServiceView = serde_json::from_value(service("web")).unwrap();
    let record = LastApplied::begun(&web, &before).to_string();
    web.annotations = web
        .annotations
        .with([("outrigger.dev/last-applied", record.as_str())]);
    let answered = |capability: &Arc<Capability>, disposition| {
        let raw = RawAnswer {
            disposition: Some(disposition),
            ..RawAnswer::default()
        };
        let answer = raw
            .check(LoadBalancerCall::Delete, &ForbiddenAddresses::default())
            .unwrap();
        let inputs = lb.decisions.inputs_of(Arc::clone(capability));
        let unproven = lb.reconciler.unproven(&answer, &web, &inputs);
        unproven.map(|failure| failure.class)
    };
    let not_managed = |capability| answered(capability, Disposition::NotManaged);
    assert_eq!(not_managed(&now), Some(ErrorClass::NotReady));
    assert_eq!(not_managed(&before), Some(ErrorClass::Unavailable));
    rig.wire.cut();
    rig.until("no session", |_| lb.decisions.capability().is_none())
        .await;
    assert_eq!(not_managed(&now), Some(ErrorClass::Unavailable));
    assert_eq!(answered(&before, Disposition::Absent), None);
}

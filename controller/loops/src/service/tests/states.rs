//! The state that Services leave in memory: each of them, and days of them that come and go with Nodes and the provider.

use std::sync::Arc;

use outrigger_core::{service::ServiceView, targets::Pace};

use super::*;
use crate::{
    fixture::{self, Fixture, days_and_hours, each_costs_as_much},
    service::{
        states::{ServiceKey, ServiceState, ServiceStates},
        subscribe,
    },
};
use outrigger_kube::store::Origin;

fn named(name: &str, uid: &str) -> (ServiceKey, Arc<ServiceView>) {
    let mut json = service(name);
    json["metadata"]["uid"] = uid.into();
    let service: ServiceView = serde_json::from_value(json).unwrap();
    (ServiceKey::of(&service), Arc::new(service))
}

/// The watch brings our own write, or the deletion, before or after its answer.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_deleted_is_not_left() {
    let states = ServiceStates::default();
    let (web, service) = named("web", "a");
    states.with(&web, |state| state.is_cleaned_up = true);
    states.with(&web, ServiceState::reset);
    assert!(!states.with(&web, |state| state.gone_from_store(&service, true)));
    assert!(states.orphaned().is_empty());
    // A later one of the same UID may be left.
    assert!(states.with(&web, |state| state.gone_from_store(&service, true)));
    states.with(&web, ServiceState::reset);
    assert_eq!(states.orphaned(), std::slice::from_ref(&web));
    assert!(!states.with(&web, |state| state.gone_from_store(&service, false)));
}

/// Its leader has cleaned up before the finalizer went, so that a queue with ever new names would only grow.
#[tokio::test(start_paused = true)]
async fn a_standby_queues_no_service_that_is_gone() {
    let fixture = Fixture::new(fixture::Setup::default());
    let inputs = subscribe(
        &fixture.services,
        &fixture.nodes,
        fixture.provider.clone(),
        Pace::default(),
        &fixture.queues,
    );
    for n in 0..100 {
        let service = (*named(&format!("web-{n}"), &format!("uid-{n}")).1).clone();
        fixture.services.apply(service, Origin::Watch);
    }
    assert_eq!(inputs.keys.queue.depth(), 100);
    for service in fixture.services.all().iter().skip(1) {
        fixture.services.delete(&service.key, Origin::Watch);
    }
    assert_eq!(inputs.keys.queue.depth(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_day_of_services_costs_as_much_as_the_day_before() {
    let mut setup = Setup::default();
    setup.settings.drift_period = Some(Duration::from_hours(6));
    let rig = with_services(10, setup).await;
    let ((count, hours), mut days) = (days_and_hours(), Vec::new());
    for day in 0..count {
        for hour in 0..hours {
            let (name, joined) = (format!("day-{day}-{hour}"), format!("joined-{day}-{hour}"));
            let key = format!("shop/{name}");
            rig.cluster.create_service(service(&name));
            rig.ready(&key).await;
            rig.join(&joined);
            secs(15 * 60).await;
            rig.leave(&joined);
            secs(15 * 60).await;
            rig.wire.cut();
            secs(60).await;
            rig.wire.mend();
            secs(14 * 60).await;
            rig.cluster.delete_service(&key);
            rig.until("its end", |rig| rig.cluster.service(&key).is_none())
                .await;
            secs(15 * 60).await;
        }
        rig.lease.forget_log();
        days.push(rig.day());
    }
    each_costs_as_much(&days);
}

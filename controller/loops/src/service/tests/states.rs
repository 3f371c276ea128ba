//! The state that each Service leaves in memory.

use std::sync::Arc;

use outrigger_core::{service::ServiceView, targets::Pace};

use super::*;
use crate::{
    fixture::{self, Fixture},
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

#[tokio::test(start_paused = true)]
async fn a_predecessor_is_another_service_of_the_same_name_that_is_orphaned() {
    let states = ServiceStates::default();
    let (web, _) = named("web", "b");
    for (name, uid) in [("web", "a"), ("web", "c"), ("web-2", "d"), ("wea", "e")] {
        let (key, service) = named(name, uid);
        secs(1).await;
        states.with(&key, |state| state.mark_orphaned(&service));
    }
    let (first, last) = (named("web", "a").0, named("web", "c").0);
    let since = |states: &ServiceStates| states.predecessor(&web).map(|at| at.elapsed().as_secs());
    assert_eq!(since(&states), Some(2), "the last one");
    states.with(&last, |state| state.orphaned = None);
    assert_eq!(since(&states), Some(3));
    assert_eq!(states.predecessor(&first), None, "not itself");
    states.with(&first, |state| state.orphaned = None);
    assert_eq!(since(&states), None);
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

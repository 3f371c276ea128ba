//! Effects of the mock on Nodes and Services beside its answers, where they are enabled.

use outrigger_provider_sdk::{Condition, Effects, Event};

use crate::instances::{LookupResult, Power};
use crate::load_balancers::LoadBalancer;
use crate::routes::Route;

/// Prefix of the annotations and conditions that the mock writes.
pub(super) const PREFIX: &str = "status.mock.example/";

fn named(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Removes an annotation and a condition.
fn removed(annotation: &str, condition: &str) -> Effects {
    Effects::default()
        .with_remove_annotations([named(annotation)])
        .with_remove_conditions([named(condition)])
}

/// The effects of a lookup on the Node.
pub(super) fn of_lookup(result: &LookupResult) -> Effects {
    let LookupResult::Instance(instance) = result else {
        return removed("instance", "Running");
    };
    let effects =
        Effects::default().with_set_annotations([(named("instance"), instance.id.to_string())]);
    match instance.power {
        Power::Shutdown | Power::Terminating => {
            let text = format!("Instance {} is stopped", instance.id);
            effects
                .with_events([Event::warning("MockInstanceStopped", text.clone())])
                .with_conditions([Condition::new(named("Running"), false, "Stopped", text)])
        }
        Power::Pending | Power::Running => {
            let text = format!("Instance {} runs", instance.id);
            effects.with_conditions([Condition::new(named("Running"), true, "Started", text)])
        }
    }
}

/// The effects of a route that exists on its Node.
pub(super) fn of_route(route: &Route) -> Effects {
    let text = format!("Route {} leads to this Node", route.name);
    Effects::default()
        .with_events([Event::normal("MockRouteMade", text.clone())])
        .with_set_annotations([(named("route"), route.name.clone())])
        .with_conditions([Condition::new(named("Routed"), true, "RouteMade", text)])
}

/// The effects of a route that the cloud refused on its Node.
pub(super) fn of_refused_route(reason: &str) -> Effects {
    Effects::default()
        .with_events([Event::warning("MockRouteRefused", reason)])
        .with_conditions([Condition::new(named("Routed"), false, "Refused", reason)])
}

/// The effects of a route that is gone on its Node.
pub(super) fn of_deleted_route() -> Effects {
    removed("route", "Routed")
}

/// The effects of a load balancer that serves on its Service.
pub(super) fn of_load_balancer(load_balancer: &LoadBalancer, made: bool) -> Effects {
    let event = made.then(|| {
        let text = format!("Made load balancer {}", load_balancer.id);
        Event::normal("MockLoadBalancerMade", text)
    });
    let text = format!("{} ports listen", load_balancer.ports.len());
    Effects::default()
        .with_events(event.into_iter().collect::<Vec<_>>())
        .with_set_annotations([(named("id"), load_balancer.id.clone())])
        .with_conditions([Condition::new(named("Listening"), true, "AllPorts", text)])
}

/// The effects of a load balancer that is gone: its Service may live on with another type.
pub(super) fn of_deleted_load_balancer() -> Effects {
    removed("id", "Listening")
}

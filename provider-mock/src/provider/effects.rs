//! Effects of the mock on Nodes and Services beside its answers, where they are enabled.

use outrigger_provider_sdk::v1::{Condition, KubernetesEffects, KubernetesEvent};

use crate::instances::{LookupResult, Power};
use crate::load_balancers::LoadBalancer;
use crate::routes::Route;

/// Prefix of the annotations and conditions that the mock writes.
pub(super) const PREFIX: &str = "status.mock.example/";

fn named(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn event(kind: &str, reason: &str, message: &str) -> Vec<KubernetesEvent> {
    vec![KubernetesEvent {
        r#type: kind.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }]
}

fn condition(name: &str, status: bool, reason: &str, message: &str) -> Vec<Condition> {
    vec![Condition {
        r#type: named(name),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }]
}

/// Removes an annotation and a condition.
fn removed(annotation: &str, condition: &str) -> KubernetesEffects {
    KubernetesEffects {
        remove_annotations: vec![named(annotation)],
        remove_conditions: vec![named(condition)],
        ..KubernetesEffects::default()
    }
}

/// The effects of a lookup on the Node.
pub(super) fn of_lookup(result: &LookupResult) -> KubernetesEffects {
    let LookupResult::Instance(instance) = result else {
        return removed("instance", "Running");
    };
    let (events, conditions) = match instance.power {
        Power::Shutdown | Power::Terminating => {
            let text = format!("Instance {} is stopped", instance.id);
            let events = event("Warning", "MockInstanceStopped", &text);
            (events, condition("Running", false, "Stopped", &text))
        }
        Power::Pending | Power::Running => {
            let text = format!("Instance {} runs", instance.id);
            (Vec::new(), condition("Running", true, "Started", &text))
        }
    };
    KubernetesEffects {
        events,
        set_annotations: [(named("instance"), instance.id.to_string())].into(),
        conditions,
        ..KubernetesEffects::default()
    }
}

/// The effects of a route that exists on its Node.
pub(super) fn of_route(route: &Route) -> KubernetesEffects {
    let text = format!("Route {} leads to this Node", route.name);
    KubernetesEffects {
        events: event("Normal", "MockRouteMade", &text),
        set_annotations: [(named("route"), route.name.clone())].into(),
        conditions: condition("Routed", true, "RouteMade", &text),
        ..KubernetesEffects::default()
    }
}

/// The effects of a route that the cloud refused on its Node.
pub(super) fn of_refused_route(reason: &str) -> KubernetesEffects {
    KubernetesEffects {
        events: event("Warning", "MockRouteRefused", reason),
        conditions: condition("Routed", false, "Refused", reason),
        ..KubernetesEffects::default()
    }
}

/// The effects of a route that is gone on its Node.
pub(super) fn of_deleted_route() -> KubernetesEffects {
    removed("route", "Routed")
}

/// The effects of a load balancer that serves on its Service.
pub(super) fn of_load_balancer(load_balancer: &LoadBalancer, made: bool) -> KubernetesEffects {
    let text = format!("Made load balancer {}", load_balancer.id);
    let listening = format!("{} ports listen", load_balancer.ports.len());
    KubernetesEffects {
        events: if made {
            event("Normal", "MockLoadBalancerMade", &text)
        } else {
            Vec::new()
        },
        set_annotations: [(named("id"), load_balancer.id.clone())].into(),
        conditions: condition("Listening", true, "AllPorts", &listening),
        ..KubernetesEffects::default()
    }
}

/// The effects of a load balancer that is gone: its Service may live on with another type.
pub(super) fn of_deleted_load_balancer() -> KubernetesEffects {
    removed("id", "Listening")
}

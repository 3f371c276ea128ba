//! What the mock writes on Services, where it is told to.

use outrigger_provider_sdk::{Condition, Effects, EffectsCapability, KubernetesEvent};

use super::LoadBalancer;

/// Prefix of what it writes.
const PREFIX: &str = "status.mock.example/";

fn id() -> String {
    format!("{PREFIX}id")
}

fn listening() -> String {
    format!("{PREFIX}Listening")
}

/// What effects may write.
pub(crate) fn capability() -> EffectsCapability {
    EffectsCapability {
        service_annotation_prefixes: vec![PREFIX.to_owned()],
        node_annotation_prefixes: Vec::new(),
        condition_type_prefixes: vec![PREFIX.to_owned()],
    }
}

/// Of a load balancer that serves.
pub(super) fn of(load_balancer: &LoadBalancer, made: bool) -> Effects {
    let event = KubernetesEvent {
        r#type: "Normal".to_owned(),
        reason: "MockLoadBalancerMade".to_owned(),
        message: format!("Made load balancer {}", load_balancer.id),
    };
    Effects {
        events: made.then_some(event).into_iter().collect(),
        set_annotations: [(id(), load_balancer.id.clone())].into(),
        conditions: vec![Condition {
            r#type: listening(),
            status: "True".to_owned(),
            reason: "AllPorts".to_owned(),
            message: format!("{} ports listen", load_balancer.ports.len()),
        }],
        ..Effects::default()
    }
}

/// Of one that is gone: the Service may live on as one of another type.
pub(super) fn of_none() -> Effects {
    Effects {
        remove_annotations: vec![id()],
        remove_conditions: vec![listening()],
        ..Effects::default()
    }
}

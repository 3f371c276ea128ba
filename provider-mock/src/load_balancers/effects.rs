//! Effects of the mock on Services, where they are enabled.

use outrigger_provider_sdk::{Condition, Effects, EffectsCapability, Event};

use super::LoadBalancer;

/// Prefix of what it writes.
const PREFIX: &str = "status.mock.example/";

fn id() -> String {
    format!("{PREFIX}id")
}

fn listening() -> String {
    format!("{PREFIX}Listening")
}

/// With the effects on Services.
pub(crate) fn declare(capability: EffectsCapability) -> EffectsCapability {
    capability
        .with_service_annotation_prefixes([PREFIX.to_owned()])
        .with_condition_type_prefixes([PREFIX.to_owned()])
}

/// Of a load balancer that serves.
pub(super) fn of(load_balancer: &LoadBalancer, made: bool) -> Effects {
    let event = made.then(|| {
        let text = format!("Made load balancer {}", load_balancer.id);
        Event::normal("MockLoadBalancerMade", text)
    });
    let text = format!("{} ports listen", load_balancer.ports.len());
    Effects::default()
        .with_events(event.into_iter().collect::<Vec<_>>())
        .with_set_annotations([(id(), load_balancer.id.clone())])
        .with_conditions([Condition::new(listening(), true, "AllPorts", text)])
}

/// Of one that is gone: the Service may live on as one of another type.
pub(super) fn of_none() -> Effects {
    Effects::default()
        .with_remove_annotations([id()])
        .with_remove_conditions([listening()])
}

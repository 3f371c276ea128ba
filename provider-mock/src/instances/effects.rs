//! Effects of the mock on Nodes beside lookups, where they are enabled.

use outrigger_provider_sdk::{Condition, Effects, Event};

use super::{Instance, Power};
use crate::provider::NODE_EFFECTS;

fn annotation() -> String {
    format!("{NODE_EFFECTS}instance")
}

fn running() -> String {
    format!("{NODE_EFFECTS}Running")
}

/// Of an instance that is there.
pub(super) fn of(instance: &Instance) -> Effects {
    let effects =
        Effects::default().with_set_annotations([(annotation(), instance.id.to_string())]);
    match instance.power {
        Power::Shutdown | Power::Terminating => {
            let text = format!("Instance {} is stopped", instance.id);
            effects
                .with_events([Event::warning("MockInstanceStopped", text.clone())])
                .with_conditions([Condition::new(running(), false, "Stopped", text)])
        }
        Power::Pending | Power::Running => {
            let text = format!("Instance {} runs", instance.id);
            effects.with_conditions([Condition::new(running(), true, "Started", text)])
        }
    }
}

/// Of an instance that is not there.
pub(super) fn of_none() -> Effects {
    Effects::default()
        .with_remove_annotations([annotation()])
        .with_remove_conditions([running()])
}

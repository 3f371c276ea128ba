//! Effects of the mock on Nodes beside results about routes, where they are enabled.

use outrigger_provider_sdk::{Condition, Effects, Event};

use super::Route;
use crate::provider::NODE_EFFECTS;

fn annotation() -> String {
    format!("{NODE_EFFECTS}route")
}

fn routed() -> String {
    format!("{NODE_EFFECTS}Routed")
}

/// Of a route that is there.
pub(super) fn of(route: &Route) -> Effects {
    let text = format!("Route {} leads to this Node", route.name);
    Effects::default()
        .with_events([Event::normal("MockRouteMade", text.clone())])
        .with_set_annotations([(annotation(), route.name.clone())])
        .with_conditions([Condition::new(routed(), true, "RouteMade", text)])
}

/// Of a route that the cloud refused.
pub(super) fn of_refused(reason: &str) -> Effects {
    Effects::default()
        .with_events([Event::warning("MockRouteRefused", reason)])
        .with_conditions([Condition::new(routed(), false, "Refused", reason)])
}

/// Of a route that is gone.
pub(super) fn of_none() -> Effects {
    Effects::default()
        .with_remove_annotations([annotation()])
        .with_remove_conditions([routed()])
}

//! Events and log lines about routes.

use outrigger_core::{
    cidr::Cidr,
    error_class::ErrorClass,
    route::{RefusedRoute, RouteRefusal, WantedRoute},
};
use tracing::{debug, warn};

use super::NodeRoute;
use outrigger_kube::events::{EventContent, ObjectRef};
use outrigger_provider::Error;
use outrigger_runtime::log_repeated;

/// A route could not be made.
const NOT_CREATED: &str = "FailedToCreateRoute";
/// Another Node has addresses of its Pod CIDR; the reason is node-ipam's.
const DUPLICATE: &str = "DuplicatePodCIDR";

impl NodeRoute {
    /// R-30 without the time it took, so that equal events fold (not Q-36).
    pub(super) fn report_not_created(&self, route: &WantedRoute, error: &Error) {
        let WantedRoute {
            destination,
            node_name,
            node_uid,
            ..
        } = route;
        let why = error.steady();
        let message =
            format!("Could not create route {node_uid} {destination} for node {node_name}: {why}");
        self.event(node_name, node_uid, NOT_CREATED, &message);
    }

    /// Not Q-14: once for each Node and Pod CIDR.
    pub(super) fn report_refused(&self, refused: &RefusedRoute) {
        let reason = match refused.why {
            RouteRefusal::Outside | RouteRefusal::TooWide { .. } => NOT_CREATED,
            RouteRefusal::Overlaps { .. } => DUPLICATE,
        };
        let uid = {
            let mut findings = self.state.findings();
            let node = findings.nodes.get(&refused.node).cloned();
            let due = node.filter(|node| findings.is_new(node, refused.destination));
            due.map(|node| node.uid.clone())
        };
        let Some(uid) = uid else { return };
        self.metrics.problem(reason);
        warn!(node = &*refused.node, error = %refused, "Node gets no route");
        self.event(&refused.node, &uid, reason, &refused.to_string());
    }

    pub(super) fn log(&self, line: &str, destination: Cidr, node: &str, error: &Error) {
        let class = error.class();
        // The route is planned again, or another process leads.
        if class == ErrorClass::Conflict || matches!(error, Error::Fenced { .. }) {
            debug!(node, %destination, %error, "{line}");
            return;
        }
        log_repeated!(
            warn, self.context.repeats, &[line, &error.steady()].concat(),
            node, %destination, class = class.as_str(), %error, "{line}"
        );
    }

    fn event(&self, node: &str, uid: &str, reason: &'static str, message: &str) {
        let event = EventContent::warning(reason, message);
        self.context.events.event(ObjectRef::node(node, uid), event);
    }
}

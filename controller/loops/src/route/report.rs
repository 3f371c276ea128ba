//! The word about routes: the condition `NetworkUnavailable` of a Node, and effects on it; events and log lines.
//!
//! The key of a Node runs here after its destinations were reconciled. A condition is written only where it changes, and an
//! event about a Pod CIDR that gets no route comes once in a lease term.

use std::sync::Arc;

use outrigger_core::{
    cidr::Cidr,
    error_class::ErrorClass,
    node::NodeView,
    route::{RefusedRoute, RouteRefusal, WantedRoute},
};
use tracing::{debug, warn};

use super::NodeRoute;
use crate::{context::not_written, queue::Outcome};
use outrigger_kube::{
    error::ApiError,
    events::{EventContent, ObjectRef},
    nodes::Write,
};
use outrigger_provider::Error;
use outrigger_runtime::log_repeated;

/// A route could not be made.
const NOT_CREATED: &str = "FailedToCreateRoute";
/// Another Node has addresses of its Pod CIDR; the reason is node-ipam's.
const DUPLICATE: &str = "DuplicatePodCIDR";

impl NodeRoute {
    /// Writes what is to be written to the Node.
    pub(super) async fn sync_node(&self, name: &Arc<str>) -> Outcome {
        let outcome = self.sync_condition(name).await;
        match self.effects.write(name).await {
            Ok(()) => outcome,
            Err(error) => self.not_written(name, "effects of the provider", &error),
        }
    }

    /// written only where it changes.
    async fn sync_condition(&self, name: &Arc<str>) -> Outcome {
        let node = self.context.nodes.get(name);
        if node.is_none_or(|node| self.state.condition(&node).is_none()) {
            return Outcome::Done;
        }
        // Closed at the stop.
        let Ok(_permit) = self.writing.acquire().await else {
            return Outcome::Retry;
        };
        let Some(node) = self.context.nodes.get(name) else {
            return Outcome::Done;
        };
        let decide = |node: &NodeView| -> Result<_, ApiError> {
            Ok(self.state.condition(node).map(Write::Effects))
        };
        match self.writer.settle(node, decide).await {
            Ok(_) => Outcome::Done,
            Err(error) => self.not_written(name, "its condition", &error),
        }
    }

    fn not_written(&self, node: &str, write: &'static str, error: &ApiError) -> Outcome {
        not_written!(self.context, node = node, write, error)
    }

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
        self.metrics.problems.of([reason]).inc();
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

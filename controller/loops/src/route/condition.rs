//! The condition `NetworkUnavailable` of one Node, and effects on it.

use std::sync::Arc;

use outrigger_core::{node::NodeView, route::NetworkConditionWrite};
use tracing::debug;

use super::NodeRoute;
use crate::queue::Outcome;
use outrigger_kube::{error::ApiError, nodes::Write};
use outrigger_runtime::log_repeated;

impl NodeRoute {
    /// Writes what is to be written to the Node.
    pub(super) async fn sync_node(&self, name: &Arc<str>) -> Outcome {
        let outcome = self.sync_condition(name).await;
        match self.effects.write(name).await {
            Ok(()) => outcome,
            Err(error) => {
                self.log_unwritten(name, "effects of the provider on the Node", &error);
                error.requeue().into()
            }
        }
    }

    /// written only where it changes.
    async fn sync_condition(&self, name: &Arc<str>) -> Outcome {
        let node = self.context.nodes.get(name);
        if node.is_none_or(|node| self.condition(&node).is_none()) {
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
            Ok(self.condition(node).map(Write::NetworkCondition))
        };
        match self.writer.settle(node, decide).await {
            Ok(_) => Outcome::Done,
            Err(ApiError::Fenced) => Outcome::Retry,
            Err(error) => {
                self.log_unwritten(name, "condition of the Node", &error);
                error.requeue().into()
            }
        }
    }

    fn log_unwritten(&self, node: &str, part: &str, error: &ApiError) {
        let class = error.class().as_str();
        log_repeated!(
            warn, self.context.repeats, &error.cause(),
            node, class, %error, "{part} cannot be written"
        );
    }

    fn condition(&self, node: &NodeView) -> Option<NetworkConditionWrite> {
        let write = self.decider.condition(node)?;
        debug!(
            node = &*node.name,
            status = write.status.as_str(),
            reason = write.reason,
            "condition NetworkUnavailable is to change"
        );
        Some(write)
    }
}

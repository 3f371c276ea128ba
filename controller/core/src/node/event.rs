//! The events about a Node of the loops cloud-node and cloud-node-lifecycle, upstream's in its words (N-22, L-8).
//!
//! The loops build and record them; an event whose comment says "Ours" has no counterpart in upstream.

use std::fmt::Display;

use crate::{
    event::EventContent,
    node::{
        ANNOTATION_CONFIRM_DELETIONS, OUT_OF_SERVICE_VALUE, TAINT_OUT_OF_SERVICE,
        claims::Duplicate,
        lifecycle::{Measure, Withheld},
    },
};

impl EventContent {
    /// The Node is initialised.
    pub fn node_synced() -> Self {
        Self::normal("Synced", "Node synced successfully")
    }

    /// Ours: why the Node still keeps its taint (not N-11).
    pub fn node_not_initialized(error: &impl Display) -> Self {
        Self::warning("FailedToInitialize", &error.to_string())
    }

    /// Ours: another Node has the provider ID.
    pub fn duplicate_provider_id(duplicate: &Duplicate) -> Self {
        Self::warning("DuplicateProviderID", &duplicate.to_string())
    }

    /// The Node is deleted next.
    pub fn deleting_node(name: &str, never_found: Option<&str>) -> Self {
        let instance = never_found.map(|instance| format!(": {instance} was ever found"));
        let message = format!(
            "Deleting node {name} because it does not exist in the cloud provider{}",
            instance.unwrap_or_default()
        );
        Self::normal("DeletingNode", &message)
    }

    /// The API server has not deleted the Node.
    pub fn node_not_deleted(name: &str, error: &impl Display) -> Self {
        let message = format!("Failed deleting node {name}: {error}");
        Self::warning("DeletingNodeFailed", &message)
    }

    /// Ours: why the Node stays, or stays in service, though its instance does not exist, or is stopped.
    pub fn node_measure_withheld(name: &str, measure: Measure, why: &Withheld) -> Self {
        let (reason, what) = match measure {
            Measure::Deletion => (
                "NodeDeletionWithheld",
                format!("Not deleting node {name}, which does not exist in the cloud provider"),
            ),
            Measure::OutOfService => (
                "NodeKeptInService",
                format!("Not taking node {name} out of service, whose instance is stopped"),
            ),
        };
        Self::warning(reason, &format!("{what}: {}", why.sentence(measure)))
    }

    /// Ours: an operator's annotation of the Lease confirmed deletions.
    pub fn deletions_confirmed(deletions: usize) -> Self {
        let message = format!(
            "The annotation {ANNOTATION_CONFIRM_DELETIONS} confirms {deletions} deletions of Nodes, all that are withheld now"
        );
        Self::normal("DeletionsConfirmed", &message)
    }

    /// Ours: an operator's annotation of the Lease confirmed nothing.
    pub fn deletions_not_confirmed(why: &impl Display) -> Self {
        let message =
            format!("The annotation {ANNOTATION_CONFIRM_DELETIONS} confirms nothing: {why}");
        Self::warning("DeletionsNotConfirmed", &message)
    }

    /// Ours: Kubernetes moves the Pods and volumes of the Node.
    pub fn node_out_of_service(name: &str) -> Self {
        let message = format!(
            "Node {name} has the taint {TAINT_OUT_OF_SERVICE}={OUT_OF_SERVICE_VALUE} until it is ready again, since its \
             instance has been stopped for long: its Pods are deleted and its volumes detached"
        );
        Self::warning("NodeOutOfService", &message)
    }

    /// Ours: the Node is ready again.
    pub fn node_in_service(name: &str) -> Self {
        let message = format!(
            "Node {name} is ready again; the taint {TAINT_OUT_OF_SERVICE}={OUT_OF_SERVICE_VALUE} is removed"
        );
        Self::normal("NodeInService", &message)
    }
}

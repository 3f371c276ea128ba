//! The events about a Service, in upstream's words (`docs/upstream.md`, events about Services).
//!
//! The plan builds them, and the loop records them once its patch is written; those whose comment says "Ours" have no
//! counterpart in upstream.

use crate::{
    event::EventContent,
    targets::{Targets, names},
};

impl EventContent {
    pub(super) fn ensuring() -> Self {
        Self::normal("EnsuringLoadBalancer", "Ensuring load balancer")
    }

    pub(super) fn ensured() -> Self {
        Self::normal("EnsuredLoadBalancer", "Ensured load balancer")
    }

    pub(super) fn updated() -> Self {
        Self::normal(
            "UpdatedLoadBalancer",
            "Updated load balancer with new hosts",
        )
    }

    pub(super) fn deleting() -> Self {
        Self::normal("DeletingLoadBalancer", "Deleting load balancer")
    }

    pub(super) fn deleted() -> Self {
        Self::normal("DeletedLoadBalancer", "Deleted load balancer")
    }

    /// Ours: upstream knows no load balancer that stays.
    pub(super) fn retained(why: &str) -> Self {
        let message = match why {
            "" => "The load balancer is kept in the cloud",
            why => &format!("The load balancer is kept in the cloud: {why}"),
        };
        Self::normal("RetainedLoadBalancer", message)
    }

    /// Ours: a load balancer that serves gets no nodes any more.
    pub(super) fn not_managed(provider: &str) -> Self {
        let message = format!(
            "The provider {provider:?} answers that it does not manage this load balancer any more: it is left \
             as it is, and gets no new nodes. The provider is asked again when the Service changes, when the \
             provider restarts, and with each comparison"
        );
        Self::warning("LoadBalancerNotManaged", &message)
    }

    pub(super) fn no_nodes() -> Self {
        let message = "There are no available nodes for LoadBalancer";
        Self::warning("UnAvailableLoadBalancer", message)
    }

    /// S-36, S-38, S-43. For a write that failed too: `failed to update load balancer status: …`.
    pub fn sync_failed(error: &str) -> Self {
        let message = format!("Error syncing load balancer: {error}");
        Self::warning("SyncLoadBalancerFailed", &message)
    }

    /// S-60.
    pub(super) fn delete_failed(error: &str) -> Self {
        let message = format!("Error deleting load balancer: {error}");
        Self::warning("DeleteLoadBalancerFailed", &message)
    }

    /// S-55.
    pub(super) fn update_failed(targets: &Targets, error: &str) -> Self {
        let nodes = names(targets);
        let message =
            format!("Error updating load balancer with new hosts {nodes}, error: {error}");
        Self::warning("UpdateLoadBalancerFailed", &message)
    }
}

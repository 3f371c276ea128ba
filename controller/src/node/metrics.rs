//! Metrics of the cloud-node loop, under upstream's names (M-1, M-2).

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

/// Upstream's buckets, in seconds since the node was created.
const DELAY: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    class: &'static str,
}

/// `node_controller_*` and what we count besides.
#[derive(Clone, Debug)]
pub struct NodeMetrics {
    /// From a node's creation to the end of its taint.
    pub(super) taint_removed: Histogram,
    /// From a node's creation to the end of its initialisation.
    pub(super) initialized: Histogram,
    failures: Family<FailureLabels, Counter>,
}

impl NodeMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self {
            taint_removed: Histogram::new(DELAY),
            initialized: Histogram::new(DELAY),
            failures: Family::default(),
        };
        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node",
            this.taint_removed.clone(),
        );
        registry.register(
            "node_controller_initial_node_sync_delay_seconds",
            "Number of seconds after node creation when NodeController finished the initial synchronization of a single node",
            this.initialized.clone(),
        );
        registry.register(
            "outrigger_node_sync_failures",
            "Tries to initialise a node that failed, by class of error",
            this.failures.clone(),
        );
        this
    }

    pub(super) fn failed(&self, class: &'static str) {
        self.failures.get_or_create(&FailureLabels { class }).inc();
    }
}

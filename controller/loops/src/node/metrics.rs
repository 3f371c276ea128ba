//! Metrics of the cloud-node loop, under upstream's names (M-1, M-2), and what an operator needs besides.

use outrigger_runtime::{metric_families, telemetry::Labelled};
use prometheus_client::metrics::{
    counter::Counter,
    histogram::{Histogram, exponential_buckets},
};

/// Upstream's buckets, in seconds since the node was created.
const DELAY: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

metric_families! {
    /// `node_controller_*` and what we count besides.
    pub struct NodeMetrics {
        // From a node's creation to the end of its taint.
        pub(super) taint_removed: Histogram = Histogram::new(DELAY),
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node";
        // From a node's creation to the end of its initialisation.
        pub(super) initialized: Histogram = Histogram::new(DELAY),
            "node_controller_initial_node_sync_delay_seconds",
            "Number of seconds after node creation when NodeController finished the initial synchronization of a single node";
        failures: Labelled<1, Counter> = Labelled::by(["class"]),
            "outrigger_node_sync_failures", "Tries to initialise or refresh a node that failed, by class of error";
        // Nodes whose kubelet is alive and whose instance the provider does not know.
        pub(super) absent_while_ready: Counter,
            "outrigger_node_absent_while_ready", "Answers that a node has no instance although its kubelet is alive";
        // Addresses of instances that are none.
        pub(super) faulty_addresses: Counter,
            "outrigger_node_addresses_dropped",
            "Addresses of instances that are left out, since a Node may not have them";
        // 100 ms to 55 min.
        pub(super) sweeps: Histogram = Histogram::new(exponential_buckets(0.1, 2.0, 16)),
            "outrigger_node_refresh_duration_seconds",
            "How long it took to look at all initialised nodes once, pauses included";
    }
}

impl NodeMetrics {
    pub(super) fn failed(&self, class: &'static str) {
        self.failures.of([class]).inc();
    }
}

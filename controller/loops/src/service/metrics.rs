//! Metrics of the service-lb loop: upstream's (M-3 … M-6), and what upstream cannot tell (M-64).

use std::{collections::HashMap, time::Duration};

use outrigger_core::{
    error_class::ErrorClass,
    service::{answer::Disposition, plan::EnsureCause},
};
use outrigger_runtime::{metric_families, telemetry::Labelled};
use prometheus_client::metrics::{
    counter::Counter,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

// Upstream's, 1 s to 4 h 33 min.
fn upstream() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 15))
}

metric_families! {
    /// `service_controller_*` and what we count besides.
    pub struct ServiceMetrics {
        updates: Counter,
            "service_controller_loadbalancer_sync",
            "Number of times that the targets of a load balancer were to be changed";
        failed_updates: Counter,
            "service_controller_nodesync_error", "Number of times that this failed";
        rounds: Histogram = upstream(),
            "service_controller_nodesync_latency_seconds",
            "How long it took to give all load balancers the nodes of one moment";
        update_durations: Histogram = upstream(),
            "service_controller_update_loadbalancer_host_latency_seconds",
            "How long it took to give one load balancer its nodes";
        ensures: Labelled<2, Counter> = Labelled::by(["cause", "result"]),
            "outrigger_service_load_balancer_ensures", "Calls to make or change a load balancer, by cause and result";
        deletes: Labelled<1, Counter> = Labelled::by(["result"]),
            "outrigger_service_load_balancer_deletes", "Calls to delete a load balancer, by result";
        load_balancers: Labelled<1, Gauge> = Labelled::by(["state"]),
            "outrigger_service_load_balancers", "Services that want a load balancer, by how it stands";
        // 50 ms to 27 min.
        pub(super) time_to_ready: Histogram = Histogram::new(exponential_buckets(0.05, 2.0, 16)),
            "outrigger_service_time_to_ready_seconds",
            "From the first sight of a Service that wants a load balancer until it is ready";
        pub(super) targets: Gauge,
            "outrigger_service_targets", "Nodes that load balancers send to";
        pub(super) targets_held: Gauge,
            "outrigger_service_targets_held",
            "Whether nodes are kept as targets since there would be none though Nodes exist";
        pub(super) nodes_too_large: Gauge,
            "outrigger_service_nodes_too_large",
            "Nodes that are no targets, since provider ID, addresses and taints take more than 32 KiB";
        // 100 ms to 55 min.
        rollouts: Histogram = Histogram::new(exponential_buckets(0.1, 2.0, 16)),
            "outrigger_service_target_rollout_seconds",
            "From the first update with other targets until every load balancer has them";
        pub(super) drifts: Counter,
            "outrigger_service_drift", "Load balancers that were found to be others than was left";
        pub(super) orphans: Gauge,
            "outrigger_service_orphaned_load_balancers",
            "Load balancers of this cluster without a Service, when they were last listed";
        pub(super) effects_dropped: Counter,
            "outrigger_service_effects_dropped",
            "Events, annotations and conditions of the provider that were not written";
    }
}

/// States in the gauge of Services that want a load balancer.
const STATES: [&str; 8] = [
    "ready",
    "in_progress",
    "failed",
    "not_managed",
    "paused",
    "too_large",
    "invalid_annotation",
    "class_not_served",
];

impl ServiceMetrics {
    /// A call of `EnsureLoadBalancer` has ended.
    pub fn ensured(&self, cause: EnsureCause, result: Result<Disposition, ErrorClass>) {
        self.ensures.of([cause.as_str(), word(result)]).inc();
    }

    /// A call of `DeleteLoadBalancer` has ended.
    pub fn deleted(&self, result: Result<Disposition, ErrorClass>) {
        self.deletes.of([word(result)]).inc();
    }

    /// A load balancer was to get new targets, in a call that took so long (M-3, M-4,
    /// M-6).
    pub fn updated(&self, took: Duration, result: Result<Disposition, ErrorClass>) {
        self.updates.inc();
        self.update_durations.observe(took.as_secs_f64());
        if result.is_err() {
            self.failed_updates.inc();
        }
    }

    /// Every load balancer has the targets of one moment, after so long (M-5).
    pub fn rolled_out(&self, took: Duration) {
        self.rollouts.observe(took.as_secs_f64());
        self.rounds.observe(took.as_secs_f64());
    }

    /// Number of Services by state, of `STATES`.
    pub fn count(&self, services: &HashMap<&'static str, usize>) {
        for state in STATES {
            let count = services.get(state).copied().unwrap_or_default();
            self.load_balancers.of([state]).set(count as i64);
        }
    }
}

const fn word(result: Result<Disposition, ErrorClass>) -> &'static str {
    match result {
        Ok(Disposition::Ready | Disposition::Absent) => "success",
        // No changing call is answered with Differs.
        Ok(Disposition::InProgress | Disposition::Differs) => "in_progress",
        Ok(Disposition::NotManaged) => "not_managed",
        Ok(Disposition::Retained) => "retained",
        Err(class) => class.as_str(),
    }
}

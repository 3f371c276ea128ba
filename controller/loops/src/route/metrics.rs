//! Metrics of the node-route loop: upstream's (M-10), and what an operator needs besides.

use std::sync::atomic::AtomicU64;

use outrigger_core::error_class::ErrorClass;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use outrigger_runtime::{clock::time_of_day, metric_families, telemetry::Labelled};

metric_families! {
    /// `route_controller_*` and what we count besides.
    pub struct RouteMetrics {
        syncs: Labelled<2, Counter> = Labelled::by(["outcome", "trigger"]),
            "route_controller_route_sync",
            "Lists of all routes (trigger periodic) and destinations that were reconciled (trigger node_change), by outcome";
        failures: Labelled<2, Counter> = Labelled::by(["operation", "class"]),
            "outrigger_node_route_failures", "Calls about routes that failed, by operation and class of the error";
        pub(super) problems: Labelled<1, Counter> = Labelled::by(["reason"]),
            "outrigger_node_route_problems", "Pod CIDRs of Nodes that are reported, by reason of the event";
        pub(super) routes: Gauge,
            "outrigger_node_route_routes", "Routes of the cluster in the cloud, as far as they are known";
        last_list: Gauge<f64, AtomicU64>,
            "outrigger_node_route_last_list_timestamp_seconds", "Time of the last complete list of routes";
    }
}

/// The outcome of a list or of one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncOutcome {
    Error,
    Changed,
    Noop,
}

impl SyncOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Changed => "changed",
            Self::Noop => "noop",
        }
    }
}

impl RouteMetrics {
    /// A list of all routes ended (`periodic`), or a destination was reconciled (`node_change`).
    pub(super) fn synced(&self, outcome: SyncOutcome, trigger: &'static str) {
        self.syncs.of([outcome.as_str(), trigger]).inc();
    }

    /// A call of `operation` failed.
    pub(super) fn failed(&self, operation: &'static str, class: ErrorClass) {
        self.failures.of([operation, class.as_str()]).inc();
    }

    /// A list was complete now.
    pub(super) fn listed(&self) {
        self.last_list.set(time_of_day().as_second() as f64);
    }
}

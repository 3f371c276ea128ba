//! Metrics of the node-route loop: upstream's (M-10), and what an operator needs besides.

use std::sync::atomic::AtomicU64;

use outrigger_core::error_class::ErrorClass;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use outrigger_runtime::{clock::time_of_day, metric_families};

type OfSync = [(&'static str, &'static str); 2];
type OfReason = [(&'static str, &'static str); 1];

metric_families! {
    /// `route_controller_*` and what we count besides.
    pub struct RouteMetrics {
        syncs: Family<OfSync, Counter>,
            "route_controller_route_sync",
            "Lists of all routes (trigger periodic) and destinations that were reconciled (trigger node_change), by outcome";
        failures: Family<OfSync, Counter>,
            "outrigger_node_route_failures", "Calls about routes that failed, by operation and class of the error";
        problems: Family<OfReason, Counter>,
            "outrigger_node_route_problems", "Pod CIDRs of Nodes that are reported, by reason of the event";
        routes: Gauge,
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
    /// One series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        self.periodic(SyncOutcome::Noop);
        self.node_change(SyncOutcome::Changed);
        self.failed("create", ErrorClass::Quota);
        self.problem("DuplicatePodCIDR");
        self.listed();
    }

    /// A list of all routes ended.
    pub(super) fn periodic(&self, outcome: SyncOutcome) {
        self.synced(outcome, "periodic");
    }

    /// A destination was reconciled.
    pub(super) fn node_change(&self, outcome: SyncOutcome) {
        self.synced(outcome, "node_change");
    }

    fn synced(&self, outcome: SyncOutcome, trigger: &'static str) {
        let labels = [("outcome", outcome.as_str()), ("trigger", trigger)];
        self.syncs.get_or_create(&labels).inc();
    }

    /// A call of `operation` failed.
    pub(super) fn failed(&self, operation: &'static str, class: ErrorClass) {
        let labels = [("operation", operation), ("class", class.as_str())];
        self.failures.get_or_create(&labels).inc();
    }

    /// A problem was reported.
    pub(super) fn problem(&self, reason: &'static str) {
        self.problems.get_or_create(&[("reason", reason)]).inc();
    }

    /// A list was complete now.
    pub(super) fn listed(&self) {
        #[expect(clippy::cast_precision_loss, reason = "seconds of this era")]
        self.last_list.set(time_of_day().as_second() as f64);
    }

    /// So many routes are in the cloud.
    pub(super) fn routes(&self, count: usize) {
        self.routes.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

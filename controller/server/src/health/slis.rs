//! Results of the checks, for `/metrics/slis` (M-63).

use outrigger_runtime::{metric_families, telemetry::TextLabels};
use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

metric_families! {
    struct CheckMetrics {
        latest: Family<TextLabels<2>, Gauge>,
            "kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck";
        total: Family<TextLabels<3>, Counter>,
            "kubernetes_healthchecks", "[STABLE] This metric records the results of all healthcheck";
    }
}

/// The two families and a registry of their own.
pub(crate) struct Slis {
    registry: Registry,
    metrics: CheckMetrics,
    // A reset between the two families of one observation would show half of it.
    order: Mutex<()>,
}

impl Default for Slis {
    fn default() -> Self {
        let mut registry = Registry::default();
        Self {
            metrics: CheckMetrics::register(&mut registry),
            registry,
            order: Mutex::default(),
        }
    }
}

impl Slis {
    pub(super) fn observe(&self, name: &str, kind: &str, ok: bool) {
        let _order = self.order.lock();
        let [name, kind] = [("name", name.to_owned()), ("type", kind.to_owned())];
        let status = if ok { "success" } else { "error" };
        let check = [name.clone(), kind.clone()];
        self.metrics.latest.get_or_create(&check).set(i64::from(ok));
        let outcome = [name, kind, ("status", status.to_owned())];
        self.metrics.total.get_or_create(&outcome).inc();
    }

    /// `DELETE /metrics/slis` (HTTP-11).
    pub(crate) fn reset(&self) {
        let _order = self.order.lock();
        self.metrics.latest.clear();
        self.metrics.total.clear();
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }
}

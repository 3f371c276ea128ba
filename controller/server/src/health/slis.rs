//! Results of the checks, for `/metrics/slis` (M-63).

use std::sync::Arc;

use outrigger_runtime::metric_families;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Check {
    name: Arc<str>,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    name: Arc<str>,
    r#type: &'static str,
    status: &'static str,
}

metric_families! {
    struct CheckMetrics {
        latest: Family<Check, Gauge>,
            "kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck";
        total: Family<Outcome, Counter>,
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
    pub(super) fn observe(&self, name: &Arc<str>, r#type: &'static str, ok: bool) {
        let _order = self.order.lock();
        let check = Check {
            name: Arc::clone(name),
            r#type,
        };
        self.metrics.latest.get_or_create(&check).set(i64::from(ok));
        let outcome = Outcome {
            name: Arc::clone(name),
            r#type,
            status: if ok { "success" } else { "error" },
        };
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

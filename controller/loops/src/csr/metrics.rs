//! Metrics of the loop kubelet-serving-approving.

use outrigger_runtime::metric_families;
use prometheus_client::metrics::{counter::Counter, family::Family};

type Labels = [(&'static str, &'static str); 2];

metric_families! {
    /// `outrigger_kubelet_serving_*`.
    pub struct CsrMetrics {
        requests: Family<Labels, Counter>,
            "outrigger_kubelet_serving_requests",
            "Requests for serving certificates that were approved or left alone, and tries that failed, by reason";
    }
}

impl CsrMetrics {
    pub(super) fn counted(&self, result: &'static str, reason: &'static str) {
        self.requests
            .get_or_create_owned(&[("result", result), ("reason", reason)])
            .inc();
    }

    /// A series in each family.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        self.counted("approved", "");
    }
}

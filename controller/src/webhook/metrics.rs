//! Requests to webhooks: upstream's counter and histogram (M-30, M-31), and a counter of ours.

use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

use super::WEBHOOK;
use outrigger_runtime::{metric_families, telemetry::TextLabels};

/// Upstream's.
const BUCKETS: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

metric_families! {
    /// `cloud_provider_webhook_*`, where successes count too (not Q-26), and lookups that were not made.
    pub struct WebhookMetrics {
        requests: Family<TextLabels<2>, Counter>,
            "cloud_provider_webhook_request", "Requests to admission webhooks, by code of the answer";
        durations: Family<TextLabels<2>, Histogram, fn() -> Histogram> = Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            "cloud_provider_webhook_request_duration_seconds", "Duration of requests to admission webhooks";
        overloaded: Counter,
            "outrigger_webhook_lookups_refused",
            "Lookups for admission webhooks that were not made, for too many were in flight";
    }
}

impl WebhookMetrics {
    /// One series of each family, for tests of a whole scrape.
    #[cfg(test)]
    pub fn sample(&self) {
        self.answered(StatusCode::OK, Duration::ZERO);
    }

    /// A request found no place.
    pub(super) fn overloaded(&self) {
        self.overloaded.inc();
    }

    pub(super) fn answered(&self, code: StatusCode, took: Duration) {
        let code = code.as_u16().to_string();
        let labels = [("code", code), ("webhook", WEBHOOK.to_owned())];
        self.requests.get_or_create(&labels).inc();
        let durations = self.durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }
}

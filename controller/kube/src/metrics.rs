//! Metrics of the Kubernetes side, under upstream's names where upstream has one (M-62): requests, watches and stores.

use std::time::Duration;

use http::{Method, Uri};
use outrigger_runtime::{metric_families, telemetry::Labelled};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

/// Upstream's buckets of the request and rate limiter latencies, in seconds.
const LATENCY: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// True if a request is a watch: an answer that goes on for minutes.
pub(super) fn is_watch(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter == "watch=true")
}

/// Latencies by verb and host.
fn latencies() -> Labelled<2, Histogram> {
    Labelled::made_by(["verb", "host"], || Histogram::new(LATENCY))
}

metric_families! {
    /// Requests to the API server: `rest_client_*`.
    pub struct ClientMetrics {
        requests: Labelled<3, Counter> = Labelled::by(["code", "method", "host"]),
            "rest_client_requests", "Number of HTTP requests, partitioned by status code, method, and host";
        duration: Labelled<2, Histogram> = latencies(),
            "rest_client_request_duration_seconds", "Request latency in seconds. Broken down by verb, and host";
        waited: Labelled<2, Histogram> = latencies(),
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host";
    }
}

impl ClientMetrics {
    pub(super) fn waited(&self, method: &Method, host: &str, time: Duration) {
        let histogram = self.waited.of([method.as_str(), host].map(str::to_owned));
        histogram.observe(time.as_secs_f64());
    }

    pub(super) fn answered(
        &self,
        method: &Method,
        watch: bool,
        host: &str,
        code: Option<u16>,
        time: Duration,
    ) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let [method, host] = [method.as_str(), host].map(str::to_owned);
        if !watch {
            let histogram = self.duration.of([method.clone(), host.clone()]);
            histogram.observe(time.as_secs_f64());
        }
        self.requests.of([code, method, host]).inc();
    }
}

metric_families! {
    /// Watches and the stores they fill: `outrigger_watch_*`, `outrigger_store_*`.
    pub struct WatchMetrics {
        pub(super) objects: Labelled<1, Gauge> = Labelled::by(["resource"]),
            "outrigger_store_objects", "Objects held in memory, by resource";
        pub(super) restarts: Labelled<2, Counter> = Labelled::by(["resource", "reason"]),
            "outrigger_watch_restarts", "Watches that ended and were started again, by resource and reason";
        pub(super) undecodable: Labelled<1, Gauge> = Labelled::by(["resource"]),
            "outrigger_store_undecodable_objects",
            "Objects that the API server shows and that cannot be decoded, by resource; the last view of each is kept";
    }
}

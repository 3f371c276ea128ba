//! Metrics of the Kubernetes side, under upstream's names where upstream has one (M-62).

use std::time::Duration;

use http::{Method, Uri};
use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use outrigger_runtime::{
    metric_families,
    telemetry::{Labels, TextLabels},
};

/// Upstream's buckets of the request and rate limiter latencies, in seconds.
const LATENCY: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// True if a request is a watch: an answer that goes on for minutes.
pub(super) fn is_watch(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter == "watch=true")
}

type Histograms = Family<TextLabels<2>, Histogram, fn() -> Histogram>;

fn latency() -> Histogram {
    Histogram::new(LATENCY)
}

metric_families! {
    /// Requests to the API server: `rest_client_*`.
    pub struct ClientMetrics {
        requests: Family<TextLabels<3>, Counter>,
            "rest_client_requests", "Number of HTTP requests, partitioned by status code, method, and host";
        duration: Histograms = Family::new_with_constructor(latency),
            "rest_client_request_duration_seconds", "Request latency in seconds. Broken down by verb, and host";
        waited: Histograms = Family::new_with_constructor(latency),
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host";
    }
}

impl ClientMetrics {
    /// A series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        let (host, time) = ("127.0.0.1:6443", Duration::from_millis(1));
        self.waited(&Method::GET, host, time);
        self.answered(&Method::GET, false, host, Some(200), time);
        self.answered(&Method::GET, false, host, None, time);
    }

    pub(super) fn waited(&self, method: &Method, host: &str, time: Duration) {
        observe(&self.waited, method, host, time);
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
        let labels = [
            ("code", code),
            ("method", method.to_string()),
            ("host", host.to_owned()),
        ];
        self.requests.get_or_create(&labels).inc();
        if !watch {
            observe(&self.duration, method, host, time);
        }
    }
}

fn observe(histograms: &Histograms, method: &Method, host: &str, time: Duration) {
    let labels = [("verb", method.to_string()), ("host", host.to_owned())];
    histograms
        .get_or_create(&labels)
        .observe(time.as_secs_f64());
}

metric_families! {
    /// Watches and the stores they fill: `outrigger_watch_*`, `outrigger_store_*`.
    pub struct WatchMetrics {
        pub(super) objects: Family<Labels<1>, Gauge>,
            "outrigger_store_objects", "Objects held in memory, by resource";
        pub(super) restarts: Family<Labels<2>, Counter>,
            "outrigger_watch_restarts", "Watches that ended and were started again, by resource and reason";
        pub(super) undecodable: Family<Labels<1>, Gauge>,
            "outrigger_store_undecodable_objects",
            "Objects that the API server shows and that cannot be decoded, by resource; the last view of each is kept";
    }
}

impl WatchMetrics {
    /// A series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        let resource = [("resource", "nodes")];
        self.objects.get_or_create(&resource).set(1);
        self.undecodable.get_or_create(&resource).set(1);
        let restart = [("resource", "nodes"), ("reason", "ended")];
        self.restarts.get_or_create(&restart).inc();
    }
}

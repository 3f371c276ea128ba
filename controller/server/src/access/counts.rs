//! Metrics of delegated authentication and authorization, under upstream's names: `apiserver_delegated_*`.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_runtime::{metric_families, telemetry::TextLabels};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

/// Upstream's buckets of reviews, in seconds.
const LATENCY: [f64; 8] = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];

/// Upstream's buckets of the life that a certificate has left: from nothing to a year, in seconds.
const LEFT: [f64; 14] = [
    0.0,
    1_800.0,
    3_600.0,
    7_200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

type Requests = Family<TextLabels<1>, Counter>;
type Durations = Family<TextLabels<1>, Histogram, fn() -> Histogram>;

fn durations() -> Durations {
    Family::new_with_constructor(|| Histogram::new(LATENCY))
}

/// Requests for one kind of review.
#[derive(Clone, Debug)]
pub(crate) struct Reviews {
    requests: Requests,
    durations: Durations,
}

impl Reviews {
    /// An answer with this HTTP code, or none.
    pub(super) fn answered(&self, code: Option<u16>, time: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = [("code", code)];
        self.requests.get_or_create(&labels).inc();
        self.durations
            .get_or_create(&labels)
            .observe(time.as_secs_f64());
    }
}

metric_families! {
    /// Reviews and client certificates.
    pub struct AccessMetrics {
        token_requests: Requests,
            "apiserver_delegated_authn_request", "Number of HTTP requests partitioned by status code";
        token_durations: Durations = durations(),
            "apiserver_delegated_authn_request_duration_seconds",
            "Request latency in seconds. Broken down by status code";
        subject_requests: Requests,
            "apiserver_delegated_authz_request", "Number of HTTP requests partitioned by status code";
        subject_durations: Durations = durations(),
            "apiserver_delegated_authz_request_duration_seconds",
            "Request latency in seconds. Broken down by status code";
        left: Histogram = Histogram::new(LEFT),
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a request";
    }
}

impl AccessMetrics {
    /// Those of reviews of tokens.
    pub(super) fn tokens(&self) -> Reviews {
        Reviews {
            requests: self.token_requests.clone(),
            durations: self.token_durations.clone(),
        }
    }

    /// Those of reviews of rights.
    pub(super) fn subjects(&self) -> Reviews {
        Reviews {
            requests: self.subject_requests.clone(),
            durations: self.subject_durations.clone(),
        }
    }

    /// One series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        let time = Duration::from_millis(1);
        self.tokens().answered(Some(201), time);
        self.subjects().answered(None, time);
    }

    /// A caller showed a good certificate that ends then.
    pub(super) fn certificate_expires(&self, end: Timestamp) {
        let left = end.duration_since(Timestamp::now());
        self.left.observe(left.as_secs_f64());
    }
}

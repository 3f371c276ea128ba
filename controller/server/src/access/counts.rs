//! Metrics of delegated authentication and authorization, under upstream's names: `apiserver_delegated_*`.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: String,
}

/// Requests for one kind of review.
#[derive(Clone, Debug)]
pub(crate) struct Reviews {
    requests: Family<CodeLabels, Counter>,
    duration: Family<CodeLabels, Histogram, fn() -> Histogram>,
}

impl Reviews {
    fn register(registry: &mut Registry, kind: &str) -> Self {
        let this = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(LATENCY)),
        };
        registry.register(
            format!("apiserver_delegated_{kind}_request"),
            "Number of HTTP requests partitioned by status code",
            this.requests.clone(),
        );
        registry.register(
            format!("apiserver_delegated_{kind}_request_duration_seconds"),
            "Request latency in seconds. Broken down by status code",
            this.duration.clone(),
        );
        this
    }

    /// An answer with this HTTP code, or none.
    pub(super) fn answered(&self, code: Option<u16>, time: Duration) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = CodeLabels { code };
        self.requests.get_or_create(&labels).inc();
        self.duration
            .get_or_create(&labels)
            .observe(time.as_secs_f64());
    }
}

/// Reviews and client certificates.
#[derive(Clone, Debug)]
pub struct AccessMetrics {
    pub(super) token: Reviews,
    pub(super) subject: Reviews,
    left: Histogram,
}

impl AccessMetrics {
    /// Registers the families.
    pub fn register(registry: &mut Registry) -> Self {
        let left = Histogram::new(LEFT);
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a request",
            left.clone(),
        );
        Self {
            token: Reviews::register(registry, "authn"),
            subject: Reviews::register(registry, "authz"),
            left,
        }
    }

    /// One series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        let time = Duration::from_millis(1);
        self.token.answered(Some(201), time);
        self.subject.answered(None, time);
    }

    /// A caller showed a good certificate that ends then.
    pub(super) fn certificate_expires(&self, end: Timestamp) {
        let left = end.duration_since(Timestamp::now());
        self.left.observe(left.as_secs_f64());
    }
}

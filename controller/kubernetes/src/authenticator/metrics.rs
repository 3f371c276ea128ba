//! Credential plugins: `rest_client_exec_plugin_*`, as client-go.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use outrigger_runtime::{metric_families, telemetry::TextLabels};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{
        MetricType, counter::Counter, family::Family, gauge::ConstGauge, histogram::Histogram,
    },
    registry::Registry,
};

/// How a run of a plugin ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Good,
    /// With this exit code; −1 for a signal.
    Failed(i32),
    NotFound,
    /// Its output cannot be used.
    Internal,
}

/// Upper bounds in seconds, from 10 min to 4 years.
const AGES: [f64; 11] = [
    600.0,
    1_800.0,
    3_600.0,
    14_400.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

metric_families! {
    /// Runs of credential plugins, and how long their certificates live.
    pub(crate) struct ExecMetrics {
        calls: Family<TextLabels<2>, Counter>,
            "rest_client_exec_plugin_call",
            "Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The exit code will be set to 0 if and only if the plugin call was successful";
        age: Histogram = Histogram::new(AGES),
            "rest_client_exec_plugin_certificate_rotation_age",
            "Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. If auth exec plugin client certificates are unused, histogram will contain no data";
        + ttl: Ttl;
    }
}

impl ExecMetrics {
    #[cfg(any(test, feature = "fixture"))]
    pub(crate) fn sample(&self) {
        self.called(Call::Good);
    }

    pub(super) fn called(&self, call: Call) {
        let (code, call_status) = match call {
            Call::Good => (0, "no_error"),
            Call::Failed(code) => (code, "plugin_execution_error"),
            Call::NotFound => (1, "plugin_not_found_error"),
            Call::Internal => (1, "client_internal_error"),
        };
        let labels = call_labels(code, call_status);
        self.calls.get_or_create(&labels).inc();
    }

    /// A plugin's certificate ends then.
    pub(super) fn certificate(&self, end: Option<Timestamp>) {
        *self.ttl.0.lock() = end;
    }

    /// A plugin's certificate that began then is replaced.
    pub(super) fn rotated(&self, begin: Timestamp) {
        let age = Timestamp::now().duration_since(begin);
        self.age.observe(age.as_secs_f64());
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.calls.get_or_create(&call_labels(0, "no_error")).get()
    }
}

fn call_labels(code: i32, call_status: &str) -> TextLabels<2> {
    [
        ("code", code.to_string()),
        ("call_status", call_status.to_owned()),
    ]
}

/// The time that a certificate is still good for.
#[derive(Clone, Debug, Default)]
struct Ttl(Arc<Mutex<Option<Timestamp>>>);

impl Ttl {
    fn register_in(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for Ttl {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let left = self.0.lock().map_or(f64::INFINITY, |end| {
            end.duration_since(Timestamp::now()).as_secs_f64()
        });
        let gauge = encoder.encode_descriptor(
            "rest_client_exec_plugin_ttl_seconds",
            "Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or manage no TLS certificates, the value will be +INF",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(left).encode(gauge)
    }
}

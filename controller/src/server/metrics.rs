//! `/metrics` and `/metrics/slis`: one registry in the text format of Prometheus.

use http::StatusCode;
use prometheus_client::{encoding::text, registry::Registry};

use super::answer::{self, Answer};

/// The format that has understood `version=0.0.4` since Prometheus 2, and the default of Go's
/// handler.
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All of `registry`.
pub(super) fn answer(registry: &Registry) -> Answer {
    let mut lines = String::new();
    if text::encode(&mut lines, registry).is_err() {
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        return answer::error(code, "the metrics cannot be written");
    }
    answer::body(StatusCode::OK, KIND, classic(&lines))
}

/// `OpenMetrics` as the older text format 0.0.4. They differ in comments: there a counter is named with its `_total`, and units
/// and the end are left out. Parsers of the older format would take a counter named without `_total` for untyped. Samples are
/// the same: no metric here has exemplars.
fn classic(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (family, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let suffix = match kind {
                "counter" => "_total",
                _ => "",
            };
            if let Some((of, text)) = help.take().filter(|(of, _)| *of == family) {
                push(&mut out, &["# HELP ", of, suffix, " ", text]);
            }
            push(&mut out, &["# TYPE ", family, suffix, " ", kind]);
        } else if !line.starts_with('#') {
            push(&mut out, &[line]);
        }
    }
    out
}

fn push(out: &mut String, parts: &[&str]) {
    out.extend(parts.iter().copied());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

    use super::*;

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let counter = Counter::<u64>::default();
        counter.inc();
        registry.register("calls", "Calls", counter);
        registry.register("depth", "Depth", Gauge::<i64>::default());
        registry.register("wait_seconds", "Wait", Histogram::new([1.0]));
        registry
    }

    #[tokio::test]
    async fn counters_are_named_in_full() {
        let answer = answer(&registry());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let expected = "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total 1\n\
                    # HELP depth Depth.\n# TYPE depth gauge\ndepth 0\n";
        assert!(body.starts_with(expected), "{body}");
        assert!(
            body.contains("wait_seconds_bucket{le=\"+Inf\"} 0\n"),
            "{body}"
        );
        assert!(!body.contains("# EOF"), "{body}");
    }
}

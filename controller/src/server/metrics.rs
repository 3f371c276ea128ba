//! `/metrics` and `/metrics/slis`: one registry in the format that the scraper asks for.

mod classic;

use http::{HeaderMap, StatusCode, header};
use prometheus_client::{encoding::text, registry::Registry};

use super::answer::{self, Answer};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The format that has understood `version=0.0.4` since Prometheus 2, and the default of Go's
/// handler.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All of `registry`.
pub(super) fn answer(registry: &Registry, headers: &HeaderMap) -> Answer {
    let mut lines = String::new();
    if text::encode(&mut lines, registry).is_err() {
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        return answer::error(code, "the metrics cannot be written");
    }
    if wants_openmetrics(headers) {
        return answer::body(StatusCode::OK, OPENMETRICS, lines);
    }
    let lines = classic::from_openmetrics(&lines);
    answer::body(StatusCode::OK, CLASSIC, lines)
}

/// Prometheus prefers it where it names it.
fn wants_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut ranges = accepted.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    ranges.any(|range| {
        let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
        kind.trim() == "application/openmetrics-text" && parameters.trim() != "q=0"
    })
}

#[cfg(test)]
mod tests;

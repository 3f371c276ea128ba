//! `/metrics` and `/metrics/slis`: one registry in the format that the scraper asks for.

mod classic;

use http::{HeaderMap, StatusCode, header};
use prometheus_client::{encoding::text, registry::Registry};

use super::answer::{self, Answer};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What has understood `version=0.0.4` since Prometheus 2 and is the default of Go's handler.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All of `registry`.
pub(super) fn answer(registry: &Registry, headers: &HeaderMap) -> Answer {
    let mut lines = String::new();
    if text::encode(&mut lines, registry).is_err() {
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        return answer::error(code, "the metrics cannot be written");
    }
    if wants_openmetrics(headers) {
        answer::body(StatusCode::OK, OPENMETRICS, lines)
    } else {
        answer::body(StatusCode::OK, CLASSIC, classic::from_openmetrics(&lines))
    }
}

/// Whoever accepts it gets it: Prometheus prefers it where it names it. A weight of 0 says no.
fn wants_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        kind.eq_ignore_ascii_case("application/openmetrics-text")
            && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

#[cfg(test)]
mod tests;

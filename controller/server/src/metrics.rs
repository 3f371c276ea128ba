//! `/metrics` and `/metrics/slis`: one registry in the format that the scraper asks for.

mod classic;

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
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
    let (kind, lines) = if wants_openmetrics(headers) {
        (OPENMETRICS, lines)
    } else {
        (CLASSIC, classic::from_openmetrics(&lines))
    };
    if !accepts(headers, header::ACCEPT_ENCODING, "gzip") {
        return answer::body(StatusCode::OK, kind, lines);
    }
    let mut answer = answer::body(StatusCode::OK, kind, zipped(lines.as_bytes()));
    let zip = HeaderValue::from_static("gzip");
    answer.headers_mut().insert(header::CONTENT_ENCODING, zip);
    answer
}

fn zipped(text: &[u8]) -> Vec<u8> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    // Memory takes every byte.
    let _ = zip.write_all(text);
    zip.finish().unwrap_or_default()
}

/// Prometheus prefers it where it names it.
fn wants_openmetrics(headers: &HeaderMap) -> bool {
    accepts(headers, header::ACCEPT, "application/openmetrics-text")
}

/// True if the list in `header` names `media_type`, and not with a weight of 0.
fn accepts(headers: &HeaderMap, header: HeaderName, media_type: &str) -> bool {
    let accepted = headers.get_all(header).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        kind.eq_ignore_ascii_case(media_type) && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

#[cfg(test)]
mod tests;

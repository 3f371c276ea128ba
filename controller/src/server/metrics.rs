//! `/metrics` and `/metrics/slis`: one registry in the format that the scraper asks for.

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
    answer::body(StatusCode::OK, CLASSIC, classic(&lines))
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

/// `OpenMetrics` as the older text format 0.0.4. They differ in comments: there a counter is named with its `_total`, and units
/// and the end are left out. Parsers of the older format would take a counter named without `_total` for untyped. Samples are
/// the same except exemplars.
fn classic(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (family, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((of, text)) = help.take().filter(|(of, _)| *of == family) {
                push(&mut out, &["# HELP ", of, suffix, " ", text]);
            }
            push(&mut out, &["# TYPE ", family, suffix, " ", kind]);
        } else if !line.starts_with('#') {
            // An exemplar follows the sample; `# ` may stand in a label's value too, but before
            // the closing brace.
            let end = exemplar(line).unwrap_or(line.len());
            push(&mut out, &[&line[..end]]);
        }
    }
    out
}

fn exemplar(line: &str) -> Option<usize> {
    let name = line.find([' ', '{'])?;
    let labels = if line[name..].starts_with('{') {
        closing_brace(line)?
    } else {
        name
    };
    line[labels..].find(" # ").map(|at| labels + at)
}

/// Position of the brace that closes the labels: the first one outside of quotes.
fn closing_brace(line: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    line.char_indices().find_map(|(at, c)| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at),
            _ => {}
        }
        None
    })
}

fn push(out: &mut String, parts: &[&str]) {
    out.extend(parts.iter().copied());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
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

    async fn fetch(accept: Option<&'static str>) -> (String, String) {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        let answer = answer(&registry(), &headers);
        let kind = answer.headers()[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .to_owned();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_older_format_names_counters_in_full() {
        let (kind, body) = fetch(Some("text/plain, application/openmetrics-text;q=0")).await;
        assert_eq!(kind, CLASSIC);
        let expected = "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total 1\n\
                    # HELP depth Depth.\n# TYPE depth gauge\ndepth 0\n";
        assert!(body.starts_with(expected), "{body}");
        assert!(
            body.contains("wait_seconds_bucket{le=\"+Inf\"} 0\n"),
            "{body}"
        );
        assert!(!body.contains("# EOF"), "{body}");
    }

    #[tokio::test]
    async fn prometheus_gets_openmetrics() {
        let accept =
            "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5";
        let (kind, body) = fetch(Some(accept)).await;
        assert_eq!(kind, OPENMETRICS);
        assert!(
            body.contains("# TYPE calls counter\n") && body.ends_with("# EOF\n"),
            "{body}"
        );
        assert_eq!(fetch(None).await.0, CLASSIC);
    }

    #[test]
    fn exemplars_are_left_out() {
        let line = "a_bucket{x=\"} # \",le=\"1\"} 3 # {id=\"7\"} 0.5\nb_total 1 # {id=\"8\"} 1\n";
        let expected = "a_bucket{x=\"} # \",le=\"1\"} 3\nb_total 1\n";
        assert_eq!(classic(line), expected);
    }
}

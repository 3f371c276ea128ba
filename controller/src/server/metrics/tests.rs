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
    let accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5";
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

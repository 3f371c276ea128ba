//! The time in which the API server wants an answer.

use std::time::Duration;

use outrigger_core::go_duration::GoDuration;

/// Assumed without a `timeout` in the query.
const DEFAULT: Duration = Duration::from_secs(5);

/// The shortest that Kubernetes allows: a shorter one is no API server's, and would be a failure that any client can
/// bring about.
const LEAST: Duration = Duration::from_secs(1);

/// The longest that Kubernetes allows.
const MOST: Duration = Duration::from_secs(30);

/// How long an answer may take, by the query of the request: `timeout=10s`, less the way back.
pub(super) fn answer_within(query: Option<&str>) -> Duration {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut timeouts = pairs.filter(|(name, _)| name == "timeout");
    let limit = timeouts.find_map(|(_, value)| value.parse::<GoDuration>().ok()?.as_std());
    let timeout = limit
        .filter(|timeout| !timeout.is_zero())
        .unwrap_or(DEFAULT)
        .clamp(LEAST, MOST);
    timeout.saturating_sub((timeout / 10).min(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_before_the_api_server_stops_waiting() {
        for (query, millis) in [
            (None, 4_500),
            (Some("timeout=10s"), 9_000),
            (Some("dryRun=All&timeout=1s"), 900),
            (Some("timeout=1ns"), 900),
            (Some("timeout=30s"), 29_000),
            (Some("timeout=2h"), 29_000),
            (Some("timeout=1m30s"), 29_000),
            (Some("timeout=0s"), 4_500),
            (Some("timeout=-3s"), 4_500),
            (Some("timeout=soon"), 4_500),
            (Some("timeout"), 4_500),
        ] {
            let within = answer_within(query);
            assert_eq!(within, Duration::from_millis(millis), "{query:?}");
        }
    }
}

//! Texts of the provider, made fit for logs, events and messages.

use std::ops::Range;

pub(super) use outrigger_core::text::{cut, message};

/// `message` without the ids of single requests, which clouds put into their errors: what goes wrong
/// again must read the same, or each time is a new event and a new write.
pub(super) fn steady(message: &str) -> String {
    const LABEL: &str = "request";
    let lower = message.to_ascii_lowercase();
    let mut shown = String::with_capacity(message.len());
    let mut kept = 0;
    for (at, _) in lower.match_indices(LABEL) {
        let label = at + LABEL.len();
        let Some(id) = request_id(&lower, label).filter(|_| at >= kept) else {
            continue;
        };
        shown.push_str(&message[kept..id.start]);
        shown.push('…');
        kept = id.end;
    }
    shown.push_str(&message[kept..]);
    shown
}

/// Where the id is after the word "request", if one follows: `ID: 4c6f…`, `_id=4c6f…`.
fn request_id(lower: &str, label: usize) -> Option<Range<usize>> {
    let rest = &lower[label..];
    let word = rest.strip_prefix(['-', '_', ' ']).unwrap_or(rest);
    let word = word.strip_prefix("id")?;
    let tail = word.trim_start_matches([':', '=', ' ', '"', '\'', '(', '[']);
    let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    let id = &tail[..end.unwrap_or(tail.len())];
    let is_id = id.len() >= 8 && id.bytes().any(|b| b.is_ascii_digit());
    let start = lower.len() - tail.len();
    (is_id && tail.len() < word.len()).then(|| start..start + id.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_failure_reads_the_same() {
        let check = |raw: &str, shown: &str| assert_eq!(steady(raw), shown);
        check(
            "StatusCode: 400, RequestID: 6d9e0c5e-1f2a-4a51-8e39-1b1e2f3a4b5c, TooManyTargets",
            "StatusCode: 400, RequestID: …, TooManyTargets",
        );
        check("no (Request-ID: req-0123abcd)", "no (Request-ID: …)");
        check("é x-request_id=0123456789 é", "é x-request_id=… é");
        check(
            "request id \"a1b2c3d4\" requestid:[9999888877]",
            "request id \"…\" requestid:[…]",
        );
        // Words that are no ID, and the cloud's names, stay.
        for same in [
            "the request is too large",
            "request id is missing",
            "request idle12345678",
            "load balancer 6d9e0c5e-1f2a-4a51-8e39-1b1e2f3a4b5c is locked",
            "request",
            "requestid",
            "",
        ] {
            check(same, same);
        }
    }
}

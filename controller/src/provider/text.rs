//! Texts of the provider, made fit for logs, events and messages.

use std::{fmt::Write, ops::Range};

/// Longest message that is shown, in bytes; the contract's limit.
const MESSAGE: usize = 1024;

/// A message for people: at most 1 KiB, on one line, nothing in it that moves a cursor.
pub(super) fn message(raw: &str) -> String {
    cut(raw, MESSAGE)
}

/// At most `limit` bytes of `raw` with control characters escaped.
pub(super) fn cut(raw: &str, limit: usize) -> String {
    let mut shown = String::with_capacity(raw.len().min(limit));
    for c in raw.chars() {
        let before = shown.len();
        if is_unsafe(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
        if shown.len() > limit {
            shown.truncate(before);
            break;
        }
    }
    shown
}

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

/// Control characters, line ends of Unicode, and marks that turn the direction of what follows.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_and_cannot_forge_a_line() {
        let check = |raw: &str, shown: &str| assert_eq!(message(raw), shown);
        check("quota exceeded", "quota exceeded");
        check("a\nlevel=error b\u{1b}[2J", "a\\nlevel=error b\\u{1b}[2J");
        check("a\u{202e}b", "a\\u{202e}b");
        check(&"x".repeat(5000), &"x".repeat(1024));
        // Never in the middle of a character or of an escape.
        check(&"é".repeat(5000), &"é".repeat(512));
        check(&format!("{}\u{1b}", "x".repeat(1022)), &"x".repeat(1022));
    }

    #[test]
    fn what_goes_wrong_again_reads_the_same() {
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
        // What is no id, and what is the cloud's name for something, stays.
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

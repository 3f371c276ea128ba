//! Texts of the provider, made fit for logs, events and messages.

use std::fmt::Write;

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
}

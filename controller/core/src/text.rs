//! Texts from outside, made fit for logs, events, conditions and metrics' labels. The one place that decides which
//! characters are shown.

use std::fmt::Write;

/// Longest message that is shown, in bytes; the contract's limit.
pub const MAX_MESSAGE: usize = 1_024;

/// A message for people: at most [`MAX_MESSAGE`] bytes, on one line, nothing in it that moves a cursor.
pub fn message(raw: &str) -> String {
    cut(raw, MAX_MESSAGE)
}

/// At most `limit` bytes of `raw`, with every character escaped that is not shown as itself.
pub fn cut(raw: &str, limit: usize) -> String {
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

/// Control characters, Unicode's line ends, marks that turn the direction of what follows, and
/// characters without width, in which a text can hide.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// A URL without user and password, for messages; any other text as it is.
pub fn without_login(text: &str) -> String {
    // A text that is no URL may have a slash or an `@` in the password.
    match text.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_, rest)) => format!("{scheme}://{rest}"),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_is_cut_and_cannot_forge_a_line() {
        let check = |raw: &str, shown: &str| assert_eq!(message(raw), shown);
        check("quota exceeded", "quota exceeded");
        check("Größe 日本 👍", "Größe 日本 👍");
        check("a\nlevel=error b\u{1b}[2J", "a\\nlevel=error b\\u{1b}[2J");
        check(
            "a\u{202e}b\u{2028}c\u{200b}",
            "a\\u{202e}b\\u{2028}c\\u{200b}",
        );
        check(
            "\u{ad}\u{2060}\u{fff9}\u{e0001}",
            "\\u{ad}\\u{2060}\\u{fff9}\\u{e0001}",
        );
        check(&"x".repeat(5000), &"x".repeat(1024));
        // Never in the middle of a character or of an escape.
        check(&"é".repeat(5000), &"é".repeat(512));
        check(&format!("{}\u{1b}", "x".repeat(1022)), &"x".repeat(1022));
    }

    proptest! {
        #[test]
        fn shown_text_is_short_and_safe(raw in any::<String>(), limit in 0_usize..200) {
            let shown = cut(&raw, limit);
            prop_assert!(shown.len() <= limit);
            prop_assert!(!shown.contains(is_unsafe));
            // Once is enough.
            prop_assert_eq!(cut(&shown, limit), shown.clone());
        }
    }

    #[test]
    fn a_url_is_shown_without_its_login() {
        for (text, shown) in [
            ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
            (
                "https://ann:hush@10.0.0.1:6443/x",
                "https://10.0.0.1:6443/x",
            ),
            ("https://ann:hu/sh@ho@10.0.0.1", "https://10.0.0.1"),
            ("https://hush@[::1]", "https://[::1]"),
            ("ann@example.org", "ann@example.org"),
            ("", ""),
        ] {
            assert_eq!(without_login(text), shown);
        }
    }
}

//! A text from outside, made safe for logs and events.

use std::fmt;

/// Characters of a text that are shown.
const SHOWN: usize = 80;

/// A text from outside: quoted, with everything that could forge a log line escaped, and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    /// The excerpt of `text`.
    pub fn of(text: &str) -> Self {
        Self(match text.char_indices().nth(SHOWN) {
            None => format!("{text:?}").into(),
            Some((end, _)) => {
                let shown = text.get(..end).unwrap_or_default();
                format!("{shown:?}… ({} bytes)", text.len()).into()
            }
        })
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! Defects of one part of a provider's answer, with the text quoted.

use std::fmt;

use crate::syntax::Complaint;

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

/// A part of an answer that breaks a limit; `F` names the part in the words of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault<F> {
    /// A text that the API server would refuse, or that makes no sense where it stands.
    #[error("the provider's {field} {value} {complaint}")]
    Illegal {
        /// Where it stands.
        field: F,
        /// The text, cut and escaped.
        value: Excerpt,
        /// The defect.
        complaint: Complaint,
    },
    /// Too many entries.
    #[error("the provider's {field} has {count} entries, more than {limit}")]
    TooMany {
        /// The field with too many entries.
        field: F,
        /// How many.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
}

pub(crate) fn legal<F>(
    field: F,
    text: &str,
    check: impl FnOnce(&str) -> Result<(), Complaint>,
) -> Result<(), Fault<F>> {
    check(text).map_err(|complaint| Fault::Illegal {
        field,
        value: Excerpt::of(text),
        complaint,
    })
}

pub(crate) fn few<F>(field: F, count: usize, limit: usize) -> Result<(), Fault<F>> {
    if count > limit {
        return Err(Fault::TooMany {
            field,
            count,
            limit,
        });
    }
    Ok(())
}

//! Defects of one part of a provider's answer, with the text quoted.
//!
//! The checks of answers ([`crate::node::answer`], [`crate::service::answer`], routes, volumes) return a [`Fault`], in a
//! sentence that names the field in the words of the contract. Text of the provider is in it as an [`Excerpt`] alone:
//! quoted, escaped and cut, so that no answer can forge a log line or fill an event.

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

/// A part of an answer that breaks a limit, in a sentence that names the part in the words of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(Box<str>);

impl Fault {
    /// A fault that `text` names, which quotes the provider by an [`Excerpt`] alone.
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// A text that the API server would refuse, or that makes no sense where it stands.
    pub(crate) fn illegal(field: impl fmt::Display, text: &str, complaint: Complaint) -> Self {
        let shown = Excerpt::of(text);
        Self::new(format!("the provider's {field} {shown} {complaint}"))
    }
}

pub(crate) fn legal<T>(
    field: impl fmt::Display,
    text: &str,
    check: impl FnOnce(&str) -> Result<T, Complaint>,
) -> Result<T, Fault> {
    check(text).map_err(|complaint| Fault::illegal(field, text, complaint))
}

pub(crate) fn few(field: impl fmt::Display, count: usize, limit: usize) -> Result<(), Fault> {
    if count > limit {
        let text = format!("the provider's {field} has {count} entries, more than {limit}");
        return Err(Fault::new(text));
    }
    Ok(())
}

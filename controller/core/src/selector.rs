//! Label selectors in Kubernetes' syntax, equality and sets: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
//!
//! Ours: kube-core matches selectors but does not read their text, and the one crate that does
//! (simple-selectors, of 2018) takes no key with a prefix.

use std::str::FromStr;

use crate::string_map::StringMap;

mod parse;

/// Requirements on labels. Has at least one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Box<[Requirement]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Exists,
    DoesNotExist,
    In(Box<[Box<str>]>),
    /// Holds without the label too.
    NotIn(Box<[Box<str>]>),
}

impl Selector {
    /// Keys of the labels that it looks at; one may come twice.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| &*requirement.key)
    }

    /// How many requirements it has.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns false: it has one at least.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all requirements hold.
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let is_one_of = |values: &[Box<str>]| {
                value.is_some_and(|value| values.iter().any(|one| **one == *value))
            };
            match &requirement.condition {
                Condition::Exists => value.is_some(),
                Condition::DoesNotExist => value.is_none(),
                Condition::In(values) => is_one_of(values),
                Condition::NotIn(values) => !is_one_of(values),
            }
        })
    }
}

impl FromStr for Selector {
    /// Why the text is no selector, in a sentence that follows the flag's name. Places count bytes from 1.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse::requirements(text).map(|requirements| Self(requirements.into()))
    }
}

#[cfg(test)]
mod tests;

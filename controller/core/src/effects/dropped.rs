//! Effects that are not written: how many, why, and one of each cause to be shown.
//!
//! [`super::RawEffects::check`] adds to it, and so does the writer of a Service when the API server refuses the effects in
//! a patch. The loops count them in metrics and send the event of each cause.

use std::fmt;

use super::{MAX_ANNOTATIONS, MAX_CONDITIONS, MAX_EVENTS, MAX_REMOVALS};
use crate::{
    event::{EventContent, EventType},
    fault::Excerpt,
};

/// Why a part of a provider's effects is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropCause {
    /// Under none of the prefixes that the provider declares.
    Undeclared,
    /// Under none that the operator grants.
    NotGranted,
    /// Beyond a bound of the answer or of the object.
    TooMany,
    /// Not legal in Kubernetes.
    Illegal,
    /// The API server did not take it.
    Refused,
}

/// Effects that are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped(Vec<Group>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    cause: DropCause,
    count: usize,
    /// Key, type or reason.
    first: Excerpt,
}

impl Dropped {
    /// Counts one more; `name` is its key, type or reason.
    pub fn add(&mut self, cause: DropCause, name: &str) {
        match self.0.iter_mut().find(|group| group.cause == cause) {
            Some(group) => group.count += 1,
            None => self.0.push(Group {
                cause,
                count: 1,
                first: Excerpt::of(name),
            }),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|group| group.count).sum()
    }

    /// Each cause with the event that tells it on the object.
    pub fn reports(&self) -> impl Iterator<Item = (DropCause, EventContent)> {
        self.0.iter().map(|group| {
            let content = EventContent {
                kind: EventType::Warning,
                reason: "EffectsDropped".into(),
                message: group.to_string().into(),
            };
            (group.cause, content)
        })
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, group) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{group}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The provider may not write {}", self.first)?;
        if self.count > 1 {
            write!(f, " and {} more", self.count - 1)?;
        }
        match self.cause {
            DropCause::Undeclared => f.write_str(
                ": under none of the prefixes that it declares; its handshake must name them",
            ),
            DropCause::NotGranted => f.write_str(
                ": --provider-effect-prefixes does not grant it; add its prefix there if the provider is to have it",
            ),
            DropCause::TooMany => write!(
                f,
                ": an answer has at most {MAX_EVENTS} events and {MAX_REMOVALS} removals, and an object at most \
                 {MAX_CONDITIONS} conditions and {} KiB of annotations under the provider's prefixes; those that are \
                 not needed must be removed",
                MAX_ANNOTATIONS >> 10
            ),
            DropCause::Illegal => f.write_str(": it is not legal in Kubernetes"),
            DropCause::Refused => f.write_str(": the API server does not take it; the rest is written"),
        }
    }
}

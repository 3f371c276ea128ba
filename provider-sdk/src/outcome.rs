//! The outcomes of lookups, and the effects beside an answer.

use outrigger_api::v1::{self, AbsenceCertainty, KubernetesEffects};

/// The outcome of a lookup; there is an [`Error`](crate::Error) where the cloud could not be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T> {
    /// It exists.
    Found(T),
    /// The provider looked and there is none.
    Absent(v1::Absent),
    /// Another provider, or none, owns it.
    NotManaged(v1::NotManaged),
}

impl<T> Outcome<T> {
    /// The cloud was asked during this call, with the permission to see everything of the cluster, answered in
    /// full, and has no such thing: why, for people. **A Node may be deleted.**
    ///
    /// An answer of the cloud that is older says so in [`age`](v1::Absent::age).
    pub fn absent(reason: impl Into<String>) -> Self {
        Self::absence(AbsenceCertainty::Confirmed, reason.into())
    }

    /// Not there, but that may be a cache, or eventual consistency of what is young: why, for people. Deletes
    /// nothing.
    pub fn not_visible_yet(reason: impl Into<String>) -> Self {
        Self::absence(AbsenceCertainty::NotVisibleYet, reason.into())
    }

    /// Another provider's, or no provider's: why, for logs.
    pub fn not_managed(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::NotManaged(v1::NotManaged { reason })
    }

    fn absence(certainty: AbsenceCertainty, reason: String) -> Self {
        Self::Absent(v1::Absent {
            certainty: certainty.into(),
            age: None,
            reason,
        })
    }
}

/// An answer, with what the controller shall write to its object beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WithEffects<T> {
    /// The answer.
    pub outcome: T,
    /// Events, annotations and conditions of the object.
    pub effects: Option<KubernetesEffects>,
}

impl<T> WithEffects<T> {
    /// Adds effects.
    #[must_use]
    pub fn with_effects(mut self, effects: impl Into<Option<KubernetesEffects>>) -> Self {
        self.effects = effects.into();
        self
    }
}

impl<T> From<T> for WithEffects<T> {
    fn from(outcome: T) -> Self {
        Self {
            outcome,
            effects: None,
        }
    }
}

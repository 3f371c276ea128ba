//! [`Outcome`]: found, absent or not managed; and [`WithEffects`], an answer with writes to Kubernetes beside it.
//!
//! Absence is an answer, not an error: the controller deletes a Node by it, and by nothing else. So [`Outcome::absent`] and
//! [`Outcome::not_visible_yet`] are two functions, and a failure to ask is an [`Error`](crate::Error).

use outrigger_api::v1::{self, AbsenceCertainty, KubernetesEffects};

/// The outcome of a lookup; there is an [`Error`](crate::Error) where the cloud could not be asked.
///
/// ```
/// use outrigger_provider_sdk::{Error, Lookup, Outcome, v1};
///
/// /// A list that the cloud brings up to date within a minute proves no absence.
/// fn from_list(machines: &[v1::Instance], id: &str) -> Result<Lookup, Error> {
///     let found = machines.iter().find(|machine| machine.provider_id == id);
///     Ok(match found {
///         Some(machine) => Outcome::Found(machine.clone()),
///         None => Outcome::not_visible_yet("the list has it not"),
///     }
///     .into())
/// }
///
/// let lookup = from_list(&[], "cloud://node-a").unwrap();
/// let Outcome::Absent(absent) = lookup.outcome else { panic!("{lookup:?}") };
/// assert_eq!(absent.certainty(), v1::AbsenceCertainty::NotVisibleYet);
/// ```
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
    /// If the cloud's own answer is older than the call, set [`age`](v1::Absent::age).
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

//! Conditions in the status of an object, and their changes.
//!
//! Plans about Nodes and Services describe each condition that they want with [`ConditionChange::set`], which returns
//! `None` where the object has it already, so that nothing is written twice. A change names one type and leaves all others
//! alone. The time of the last transition moves with the status and not with the words, as in all of Kubernetes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    api_time,
    null::{is_default, or_default},
};

/// One of `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// `type`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: Box<str>,
    /// `status`: `True`, `False`, `Unknown`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub status: Box<str>,
    /// `reason`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub reason: Box<str>,
    /// `message`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub message: Box<str>,
    /// `lastTransitionTime`; absent where it cannot be read. A time out of range is the nearest
    /// [`Timestamp`].
    #[serde(
        deserialize_with = "api_time::if_readable",
        skip_serializing_if = "is_default"
    )]
    pub last_transition_time: Option<Timestamp>,
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl Status {
    /// The status as Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads what Kubernetes writes.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::True, Self::False, Self::Unknown]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

/// The change of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionChange {
    /// It is written over whatever is there of its type.
    Set(Condition),
    /// The condition of this type is removed.
    Remove(Box<str>),
}

impl ConditionChange {
    /// The change that gives the condition `kind` of an object with the conditions `current` this state, or
    /// none where it is so. The time is that of the status, not of the words.
    pub fn set(
        now: Timestamp,
        current: &[Condition],
        kind: &str,
        status: Status,
        reason: &str,
        message: &str,
    ) -> Option<Self> {
        let old = find(current, kind).filter(|old| &*old.status == status.as_str());
        if old.is_some_and(|old| &*old.reason == reason && &*old.message == message) {
            return None;
        }
        let since = old.and_then(|old| old.last_transition_time);
        // Kubernetes keeps whole seconds.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Some(Self::Set(Condition {
            kind: kind.into(),
            status: status.as_str().into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: since.or(Some(now)),
        }))
    }

    /// The change that removes the condition `kind`, or none where `current` has none.
    pub fn remove(current: &[Condition], kind: &str) -> Option<Self> {
        find(current, kind).map(|_| Self::Remove(kind.into()))
    }

    /// Type of the condition.
    pub const fn kind(&self) -> &str {
        match self {
            Self::Set(Condition { kind, .. }) | Self::Remove(kind) => kind,
        }
    }

    /// The conditions once `changes` are written to an object with the conditions `current`.
    pub fn apply_all(changes: &[Self], current: &[Condition]) -> Box<[Condition]> {
        let mut conditions = current.to_vec();
        for change in changes {
            match change {
                Self::Set(new) => match conditions.iter_mut().find(|c| c.kind == new.kind) {
                    Some(old) => *old = new.clone(),
                    None => conditions.push(new.clone()),
                },
                Self::Remove(kind) => conditions.retain(|c| c.kind != *kind),
            }
        }
        conditions.into()
    }
}

/// The condition of the type `kind`.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| *c.kind == *kind)
}

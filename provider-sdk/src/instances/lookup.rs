use std::time::Duration;

use outrigger_api::v1::{self, instance_result::Outcome as Wire};
use tokio::time::Instant;

use crate::error::duration;
use crate::setters::setters;
use crate::{Effects, Instance};

/// The options of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Query {
    /// How much of each is wanted; more may be filled.
    pub view: View,
    /// An answer from the provider's own caches may be this old. Zero: ask the cloud now.
    pub max_staleness: Duration,
}

/// How much of an instance is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum View {
    /// Everything.
    #[default]
    Full,
    /// All but the power state.
    Metadata,
    /// Existence and power state; nothing else but the provider ID is read.
    State,
}

setters! { plain Query {
    with_view => view: View,
    with_max_staleness => max_staleness: Duration,
} }

impl Query {
    /// A view of a later minor is read as everything.
    pub(crate) fn from_wire(
        view: v1::InstanceView,
        max_staleness: Option<prost_types::Duration>,
    ) -> Self {
        let view = match view {
            v1::InstanceView::Unspecified | v1::InstanceView::Full => View::Full,
            v1::InstanceView::Metadata => View::Metadata,
            v1::InstanceView::State => View::State,
        };
        Self {
            view,
            max_staleness: max_staleness
                .and_then(|staleness| staleness.try_into().ok())
                .unwrap_or_default(),
        }
    }
}

/// The answer about one Node, with its effects in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup {
    /// The outcome.
    pub outcome: Outcome,
    /// Events, annotations and conditions of the Node.
    pub effects: Option<Effects>,
}

/// The outcome of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The instance exists, running or not.
    Found(Box<Instance>),
    /// The provider looked and there is none. Made with [`Lookup::absent`],
    /// [`Lookup::not_visible_yet`] or [`Lookup::absent_since`].
    #[non_exhaustive]
    Absent {
        /// How certain that is.
        certainty: Certainty,
        /// How long ago the cloud was asked. `None`: for this call. An age that reaches back before
        /// the call is never sent as [`Certainty::Confirmed`].
        age: Option<Duration>,
    },
    /// Another provider, or none, owns the Node: why, for logs.
    NotManaged(String),
}

/// How certain an absence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Certainty {
    /// Asked now, allowed to see everything, answered in full: the Node may be deleted.
    Confirmed,
    /// May be a cache, or eventual consistency of a young instance.
    NotVisibleYet,
}

impl Lookup {
    /// The instance exists, running or not.
    pub fn found(instance: Instance) -> Self {
        Outcome::Found(Box::new(instance)).into()
    }

    /// The cloud was asked during this call, with the permission to see every instance of the
    /// cluster, answered in full, and has no such instance. **The Node may be deleted.**
    pub fn absent() -> Self {
        Self::absence(Certainty::Confirmed, None)
    }

    /// Like [`absent`](Self::absent), by an answer of the cloud that is `age` old. An answer that is older than
    /// this call is sent as [`not_visible_yet`](Self::not_visible_yet).
    pub fn absent_since(age: Duration) -> Self {
        Self::absence(Certainty::Confirmed, Some(age))
    }

    /// Not there, but that may be a cache or eventual consistency. Deletes nothing.
    pub fn not_visible_yet() -> Self {
        Self::absence(Certainty::NotVisibleYet, None)
    }

    fn absence(certainty: Certainty, age: Option<Duration>) -> Self {
        Outcome::Absent { certainty, age }.into()
    }

    /// Not this provider's Node: why, for logs.
    pub fn not_managed(reason: impl Into<String>) -> Self {
        Outcome::NotManaged(reason.into()).into()
    }

    /// Adds effects on the Node.
    #[must_use]
    pub fn with_effects(mut self, effects: impl Into<Option<Effects>>) -> Self {
        self.effects = effects.into();
        self
    }
}

impl From<Outcome> for Lookup {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            effects: None,
        }
    }
}

impl From<Instance> for Lookup {
    fn from(instance: Instance) -> Self {
        Self::found(instance)
    }
}

impl Lookup {
    /// The wire form. `asked_at` is when the call began.
    pub(crate) fn into_wire(self, asked_at: Instant) -> (Wire, Option<Effects>) {
        let outcome = match self.outcome {
            Outcome::Found(instance) => Wire::Found(instance.into_wire()),
            Outcome::Absent { certainty, age } => Wire::Absent(absent(certainty, age, asked_at)),
            Outcome::NotManaged(reason) => Wire::NotManaged(v1::NotManaged { reason }),
        };
        (outcome, self.effects)
    }
}

fn absent(certainty: Certainty, age: Option<Duration>, asked_at: Instant) -> v1::Absent {
    let certainty = match certainty {
        // An observation from before the call is a cache, whatever the vendor calls it.
        Certainty::Confirmed if age.is_none_or(|age| age <= asked_at.elapsed()) => {
            v1::AbsenceCertainty::Confirmed
        }
        Certainty::Confirmed | Certainty::NotVisibleYet => v1::AbsenceCertainty::NotVisibleYet,
    };
    v1::Absent {
        certainty: certainty.into(),
        age: age.map(duration),
        reason: String::new(),
    }
}

//! The results of decisions about a Node that is not ready, as values.
//!
//! The loop acts on a [`Check`] and a [`LifecycleAction`]; events, logs and metrics take the names and sentences of
//! [`Withheld`] and [`Inconclusive`].

use jiff::Timestamp;

use crate::node::{
    UnreadableLabel,
    change::NodeChange,
    deletion_limit::{DeletionRefusal, Release},
};

/// The step for a node before the provider is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Ask the provider now for state, with no staleness allowed, and pass the answer to
    /// [`super::Lifecycle::answered`].
    Ask,
    /// Check again then, unless the node changes before.
    At(Timestamp),
    /// The node is ready: the taints of its stop go without a lookup (L-3).
    RemoveTaints(NodeChange),
    /// Nothing until the node, or what is known beside it, changes.
    Idle(Idle),
}

/// Why a node is not asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It is ready, so its instance exists (L-3).
    Ready,
    /// The Node is being deleted.
    BeingDeleted,
    /// An operator has paused it ([`crate::node::LABEL_PAUSED`]).
    Paused,
    /// It has another provider's id.
    Foreign,
    /// The provider answered that it does not manage it.
    NotManaged,
}

/// The result of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleDecision {
    /// To be done now.
    pub action: LifecycleAction,
    /// To be done after it.
    pub next: Check,
}

/// The action that an answer leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleAction {
    /// Nothing.
    Keep,
    /// Its instance is stopped (L-10).
    AddShutdownTaint(NodeChange),
    /// Its instance has been stopped for long.
    TakeOutOfService(NodeChange),
    /// Its instance does not exist (L-7).
    Delete(Deletion),
    /// Its instance does not exist, or is stopped, and nothing follows all the same.
    Withhold(Measure, Withheld),
    /// The provider does not manage it: to be remembered with the question
    /// ([`super::LifecycleFacts::not_managed`]).
    NotManaged {
        /// The provider's reason, for logs.
        reason: Box<str>,
    },
    /// The answer proves nothing.
    Inconclusive(Inconclusive),
}

/// A deletion (not Q-4: of the version of the Node that was judged).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Why the rate limit allows it.
    pub release: Release,
    /// Its instance was never found: the question, for the event.
    pub never_found: Option<String>,
}

/// A measure that is withheld as long as there is a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The Node is deleted, since its instance does not exist.
    Deletion,
    /// The Node is taken out of service, since its instance is stopped.
    OutOfService,
}

impl Measure {
    /// The way of an operator who knows better.
    const fn by_operator(self) -> &'static str {
        match self {
            Self::Deletion => {
                "an operator who knows that it is gone confirms the deletion: by the label \
                 outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true, set from now on, or by the annotation \
                 outrigger.dev/confirm-deletions on the Lease, for all that are withheld"
            }
            // The way of Kubernetes' own page.
            Self::OutOfService => {
                "an operator who knows that it is stopped adds the taint by hand: kubectl taint node NODE \
                 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
            }
        }
    }
}

/// Why a node without an instance is not deleted, or one whose instance is stopped not taken out of service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// It has no provider id, and may be another provider's.
    #[error(
        "it has no provider ID, and either --node-selector does not select it or the cluster has \
         nodes of another provider"
    )]
    NotOwned,
    /// Its instance may not be visible yet.
    #[error("it is so young that its instance may not be visible before {until:.0}")]
    Young {
        /// When it is old enough.
        until: Timestamp,
    },
    /// Its instance was never found, so that it more likely has another name than none.
    #[error(
        "{question} was ever found; the node stays until its kubelet has been silent, and the provider has found none, for \
         15 min"
    )]
    NeverFound {
        /// The question.
        question: String,
        /// When time alone may change it.
        until: Option<Timestamp>,
    },
    /// Its label says no time.
    #[error(transparent)]
    UnreadableLabel(#[from] UnreadableLabel),
    /// So many instances are absent that the provider's answers are in doubt.
    #[error("more nodes are absent from the cloud than the rate limit of deletions allows")]
    DeletionsLimited,
    /// The provider's answers are not to be trusted now.
    #[error("the provider is not READY right before it ({reason})")]
    ProviderNotReady {
        /// How it is, in its own words.
        reason: Box<str>,
    },
    /// The rate limit refuses it.
    #[error(transparent)]
    Refused(#[from] DeletionRefusal),
}

impl Withheld {
    /// The metric label: snake case, stable across releases.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotOwned => "not_owned",
            Self::Young { .. } => "young",
            Self::NeverFound { .. } => "never_found",
            Self::UnreadableLabel(_) => "unreadable_label",
            Self::DeletionsLimited => "deletions_limited",
            Self::ProviderNotReady { .. } => "provider_not_ready",
            Self::Refused(refusal) => refusal.as_str(),
        }
    }

    /// Why `measure` is withheld, and what an operator can do.
    pub fn sentence(&self, measure: Measure) -> String {
        let is_for_operator = match self {
            Self::DeletionsLimited | Self::ProviderNotReady { .. } => true,
            Self::Refused(refusal) => refusal.is_for_operator(),
            _ => false,
        };
        if is_for_operator {
            format!("{self}; {}", measure.by_operator())
        } else {
            self.to_string()
        }
    }

    /// Returns true if time alone ends it soon, as it mostly does.
    pub const fn is_expected(&self) -> bool {
        matches!(
            self,
            Self::Young { .. } | Self::Refused(DeletionRefusal::LookAgain { .. })
        )
    }

    /// When time alone may change it.
    pub(super) const fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Young { until } => Some(*until),
            Self::NeverFound { until, .. } => *until,
            Self::Refused(refusal) => refusal.until(),
            _ => None,
        }
    }
}

/// Why an answer proves nothing. The node is checked again as if there had been none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconclusive {
    /// The lookup failed.
    #[error("the provider gave no answer")]
    NoAnswer,
    /// The provider finds no instance, and is not sure that there is none.
    #[error("the provider finds no instance, but does not rule out that there is one")]
    NotConfirmed,
    /// The answer is about an instance that is not the node's.
    #[error("the provider answers with instance {instance_id:?}, which is not this node's")]
    AnotherInstance {
        /// Its provider id.
        instance_id: Box<str>,
    },
    /// The node is not what it was when the provider was asked.
    #[error("the node changed while the provider was asked")]
    NodeChanged,
}

impl Inconclusive {
    /// The metric label: snake case, stable across releases.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::NotConfirmed => "not_confirmed",
            Self::AnotherInstance { .. } => "another_instance",
            Self::NodeChanged => "node_changed",
        }
    }
}

//! Decisions of the rate limit, for events, logs and metrics.

use jiff::Timestamp;

/// The remedy of an operator who knows better.
pub(crate) const BY_OPERATOR: &str = "an operator who knows that it is gone confirms the deletion: by the label \
    outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true, set from now on, or by the annotation \
    outrigger.dev/confirm-deletions on the Lease, for all that are withheld";

/// Why a deletion is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Few nodes are absent.
    WithinLimit,
    /// Many are absent, and still were one window later.
    SecondLook,
    /// Its end was announced before it was absent.
    Announced,
    /// An operator confirmed it.
    Operator,
}

/// Why a node may not be deleted now. The texts of all but [`Self::LookAgain`] stay the same for
/// one node, so that events about it fold (not Q-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeletionRefusal {
    /// There are too few answers.
    #[error("the provider is asked once more at {at:.0}")]
    LookAgain {
        /// When the next answer counts.
        at: Timestamp,
    },
    /// Another loop was answered meanwhile that the instance exists.
    #[error(
        "the provider has found the instance since it first said that there is none, so its answers in a row are \
         counted again; {BY_OPERATOR}"
    )]
    Contradicted {
        /// When the next answer counts.
        at: Timestamp,
    },
    /// Deletion is switched off.
    #[error("deletion is switched off (--node-deletion-enabled=false)")]
    Off,
    /// Too many nodes are absent.
    #[error("too many nodes are absent together; a second look at {until:.0} decides")]
    LimitExceeded {
        /// When the second look is due.
        until: Timestamp,
    },
    /// An operator must confirm it.
    #[error("{0}; {BY_OPERATOR}")]
    AwaitsOperator(Doubt),
}

/// Why an operator must confirm the deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// More than half of the provider's nodes are absent or deleted. Ends when they are fewer.
    #[error("more than half of the provider's nodes are absent")]
    Majority,
    /// The provider has found no other node since. Ends when it does.
    #[error("the provider was asked again, and has found no other node of the cluster")]
    FindsNone,
}

impl Release {
    /// The metric label: snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WithinLimit => "within_limit",
            Self::SecondLook => "second_look",
            Self::Announced => "announced",
            Self::Operator => "operator",
        }
    }
}

impl DeletionRefusal {
    /// The metric label: snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LookAgain { .. } => "look_again",
            Self::Contradicted { .. } => "contradicted",
            Self::Off => "off",
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::AwaitsOperator(Doubt::Majority) => "majority_absent",
            Self::AwaitsOperator(Doubt::FindsNone) => "finds_none",
        }
    }
}

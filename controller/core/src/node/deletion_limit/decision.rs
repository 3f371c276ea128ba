//! Decisions of the rate limit, for events, logs and metrics.
//!
//! A [`Release`] says why a deletion is allowed, a [`DeletionRefusal`] why not, when time alone may change that, and
//! whether an operator may overrule it.

use jiff::Timestamp;

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

/// Why a node may not be deleted, or taken out of service, now. The texts of all but [`Self::LookAgain`] stay the same for
/// one node, so that events about it fold (not Q-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeletionRefusal {
    /// There are too few answers.
    #[error("the provider is asked once more at {at:.0}")]
    LookAgain {
        /// When the next answer counts.
        at: Timestamp,
    },
    /// Another loop was answered otherwise meanwhile.
    #[error(
        "the provider has said otherwise in between, so its answers in a row are counted again"
    )]
    Contradicted {
        /// When the next answer counts.
        at: Timestamp,
    },
    /// Deletion is switched off.
    #[error("deletion is switched off (--node-deletion-enabled=false)")]
    Off,
    /// Too many nodes are absent, or stopped.
    #[error("it is so with too many nodes together; a second look at {until:.0} decides")]
    LimitExceeded {
        /// When the second look is due.
        until: Timestamp,
    },
    /// More than half of the provider's nodes are absent or deleted, or stopped. Ends when they are fewer.
    #[error("it is so with more than half of the provider's nodes")]
    Majority,
    /// The provider has found no other node since, that runs. Ends when it does.
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
    /// Returns true if an operator who knows better may overrule it.
    pub(crate) const fn is_for_operator(self) -> bool {
        !matches!(self, Self::LookAgain { .. } | Self::Off)
    }

    /// When time alone may change it.
    pub(crate) const fn until(self) -> Option<Timestamp> {
        match self {
            Self::LookAgain { at: until }
            | Self::Contradicted { at: until }
            | Self::LimitExceeded { until } => Some(until),
            Self::Off | Self::Majority | Self::FindsNone => None,
        }
    }

    /// The metric label: snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LookAgain { .. } => "look_again",
            Self::Contradicted { .. } => "contradicted",
            Self::Off => "off",
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::Majority => "majority",
            Self::FindsNone => "finds_none",
        }
    }
}

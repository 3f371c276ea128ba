//! The kinds of failure: requeue, event and metric label follow from the class alone.
//!
//! Every error enum of the project has `fn class(&self) -> ErrorClass`. Metrics take [`ErrorClass::as_str`], and no code
//! parses a message.
//!
//! # When a failed key is tried again
//!
//! [`ErrorClass::requeue`] decides, the queue's `Outcome::from` makes a delay of it, and the queue alone retries. A change
//! of the object runs its key at once.
//!
//! | class | the key is tried again | event | calls that pause |
//! |---|---|---|---|
//! | `transient`, `not_ready`, `quota` | after the back-off of its queue | yes | |
//! | `malformed`, `forbidden`, `unimplemented` | after a slow back-off, 5 s to 5 min | yes | |
//! | `unavailable`, `conflict` | after the back-off of its queue | no | |
//! | `unauthenticated` | after the back-off of its queue | no | all |
//! | `rate_limited` | when the other side asks, within [`KEY_WAIT`]; else after the back-off | no | its class |
//! | `in_progress` | when the other side asks, within [`KEY_WAIT`]; else after 5 s | no | |
//! | `invalid` | when the object, or the provider's declaration, changes | yes | |
//!
//! The back-off doubles with each failure in a row, and the slow one is counted apart: of Nodes from 5 ms to 1000 s with
//! jitter (N-2), of Services from 5 s to 5 min (S-2). The provider client (`outrigger-provider`, module `admission`) makes
//! the pauses. "Event" means one on the object, for its owner; the cloud-node loop emits one after 30 s of failures (not
//! N-11). Three kinds of work differ:
//!
//! - a deletion of a load balancer is tried again within [`DELETION_WAIT`], also if it is invalid (S-14);
//! - an update of targets that fails is followed by an Ensure at once, unless time alone heals it, or the Service was refused
//!   (S-55);
//! - a write that the API server or a policy refuses is repeated after the slow back-off, also if it is invalid or the API
//!   server asks for less: `ApiError::requeue`. Before that, a write that is refused with 429 waits and is sent again.
//!
//! ```
//! use outrigger_core::error_class::{ErrorClass, KEY_WAIT, Requeue};
//! use std::time::Duration;
//!
//! let throttled = ErrorClass::RateLimited { retry_after: Some(Duration::from_secs(7200)) };
//! assert_eq!(throttled.requeue(), Requeue::After(KEY_WAIT.longest()));
//! assert_eq!(ErrorClass::Invalid.requeue(), Requeue::OnChange);
//! ```

use std::time::Duration;

/// The kinds of failure. Closed on purpose: a new kind is a row of the table above, not a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Went wrong in a way that time heals, or with an unknown result: a deadline, a lost
    /// connection, a 5xx, a status without the provider's `ErrorInfo`. The call is idempotent.
    Transient,
    /// The provider is not connected, or is starting or ending; the queue is paused anyway.
    Unavailable,
    /// The cloud or the API server asked for less.
    RateLimited {
        /// How long to wait, if the other side said so.
        retry_after: Option<Duration>,
    },
    /// An earlier operation on the same object still runs.
    InProgress {
        /// How long to wait, if the other side said so.
        retry_after: Option<Duration>,
    },
    /// Another client wrote first: a failed precondition of a patch, a 409, a lost optimistic lock
    /// in the cloud. The caller reads and plans again at once; the requeue is for one that fails again.
    Conflict,
    /// Another object must change first: a resource in the way, an address not assigned yet, no
    /// instance for a young node.
    NotReady,
    /// An account or object limit is reached. Concerns this object only.
    Quota,
    /// The object itself is wrong, such as an annotation that does not parse. Repeating brings the
    /// same.
    Invalid,
    /// The other side broke its contract: a malformed answer, an oversized one, a missing result.
    /// Never read as absence.
    Malformed,
    /// The cloud refuses the provider's credentials, or the API server ours.
    Unauthenticated,
    /// One action is not allowed; the message names it.
    Forbidden,
    /// The provider does not serve the call. A half-written provider may be replaced at any time.
    Unimplemented,
}

/// The first delay of what heals only when an operator does something, doubled by each further failure.
pub const SLOW: Duration = Duration::from_secs(5);

/// The longest of these delays, where a loop has no shorter one.
pub const SLOWEST: Duration = Duration::from_mins(5);

/// When an item that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// After the item's own exponential back-off.
    BackOff,
    /// After a back-off from [`SLOW`] to [`SLOWEST`]: an operator has to repair the other side.
    SlowBackOff,
    /// After exactly this long, as the other side asked within [`KEY_WAIT`], or at once; the item's
    /// back-off neither grows nor resets.
    After(Duration),
    /// Not before the object, or what the provider offers, changes.
    OnChange,
}

/// The wait for an operation in progress of unknown duration.
const IN_PROGRESS_DEFAULT: Duration = Duration::from_secs(5);

/// Bounds of a wait that the other side asks for: a shorter one would be a storm, a longer one a
/// silence. The contract states them in one table (`common.proto`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds(Duration);

/// Bounds of the wait of one key: a node, a Service.
pub const KEY_WAIT: Bounds = Bounds(Duration::from_mins(5));
/// Bounds of the wait of a key whose load balancer is being deleted (S-14): no edit would bring the next try forward.
pub const DELETION_WAIT: Bounds = Bounds(Duration::from_secs(30));
/// Bounds of a pause of a whole class of calls: an operator must be able to see it end.
pub const CLASS_PAUSE: Bounds = Bounds(Duration::from_hours(1));

impl Bounds {
    const SHORTEST: Duration = Duration::from_secs(1);

    /// The longest wait.
    pub const fn longest(self) -> Duration {
        self.0
    }

    /// `delay`, or the bound that it breaks.
    pub fn clamp(self, delay: Duration) -> Duration {
        delay.clamp(Self::SHORTEST, self.0)
    }
}

impl ErrorClass {
    /// The metric label: snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Unavailable => "unavailable",
            Self::RateLimited { .. } => "rate_limited",
            Self::InProgress { .. } => "in_progress",
            Self::Conflict => "conflict",
            Self::NotReady => "not_ready",
            Self::Quota => "quota",
            Self::Invalid => "invalid",
            Self::Malformed => "malformed",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Unimplemented => "unimplemented",
        }
    }

    /// Returns true if the owner of the object gets an event: it concerns this object alone, and is more than a wait.
    pub const fn is_for_owner(self) -> bool {
        match self {
            Self::Transient
            | Self::NotReady
            | Self::Quota
            | Self::Invalid
            | Self::Malformed
            | Self::Forbidden
            | Self::Unimplemented => true,
            Self::Unavailable
            | Self::RateLimited { .. }
            | Self::InProgress { .. }
            | Self::Conflict
            | Self::Unauthenticated => false,
        }
    }

    /// When an item that failed this way is tried again (see the table of this module).
    pub fn requeue(self) -> Requeue {
        match self {
            Self::RateLimited {
                retry_after: Some(after),
            }
            | Self::InProgress {
                retry_after: Some(after),
            } => Requeue::After(KEY_WAIT.clamp(after)),
            Self::InProgress { retry_after: None } => Requeue::After(IN_PROGRESS_DEFAULT),
            Self::Invalid => Requeue::OnChange,
            Self::Transient
            | Self::Unavailable
            | Self::RateLimited { retry_after: None }
            | Self::Conflict
            | Self::NotReady
            | Self::Quota
            // The provider's calls pause as a whole, and go on as soon as the pause ends.
            | Self::Unauthenticated => Requeue::BackOff,
            Self::Malformed | Self::Forbidden | Self::Unimplemented => Requeue::SlowBackOff,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::{CLASS_PAUSE, DELETION_WAIT, ErrorClass, KEY_WAIT, Requeue};

    const ALL: [ErrorClass; 12] = [
        ErrorClass::Transient,
        ErrorClass::Unavailable,
        ErrorClass::RateLimited { retry_after: None },
        ErrorClass::InProgress { retry_after: None },
        ErrorClass::Conflict,
        ErrorClass::NotReady,
        ErrorClass::Quota,
        ErrorClass::Invalid,
        ErrorClass::Malformed,
        ErrorClass::Unauthenticated,
        ErrorClass::Forbidden,
        ErrorClass::Unimplemented,
    ];

    #[test]
    fn labels_are_distinct_metric_words() {
        let labels: HashSet<_> = ALL.iter().map(|class| class.as_str()).collect();
        assert_eq!(labels.len(), ALL.len());
        for label in labels {
            assert!(
                label.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{label}"
            );
        }
    }

    /// C-12, Q-28: a delay that the other side names is honoured exactly, everywhere.
    #[test]
    fn a_named_delay_is_kept_exactly() {
        let after = Duration::from_millis(1_234);
        for class in [
            ErrorClass::RateLimited {
                retry_after: Some(after),
            },
            ErrorClass::InProgress {
                retry_after: Some(after),
            },
        ] {
            assert_eq!(class.requeue(), Requeue::After(after));
        }
    }

    /// Neither a storm nor a silence, whatever the other side says.
    #[test]
    fn a_named_delay_is_bounded() {
        let clamped = |delay: Duration| {
            [KEY_WAIT, DELETION_WAIT, CLASS_PAUSE].map(|bounds| bounds.clamp(delay).as_secs())
        };
        assert_eq!(clamped(Duration::ZERO), [1, 1, 1]);
        assert_eq!(clamped(Duration::from_millis(1)), [1, 1, 1]);
        assert_eq!(clamped(Duration::from_secs(20)), [20, 20, 20]);
        assert_eq!(clamped(Duration::from_hours(24 * 365)), [300, 30, 3600]);
        assert_eq!(DELETION_WAIT.longest(), Duration::from_secs(30));
        for (delay, after) in [(Duration::from_millis(1), 1), (Duration::MAX, 300)] {
            for class in [
                ErrorClass::RateLimited {
                    retry_after: Some(delay),
                },
                ErrorClass::InProgress {
                    retry_after: Some(delay),
                },
            ] {
                let after = Requeue::After(Duration::from_secs(after));
                assert_eq!(class.requeue(), after, "{delay:?}");
            }
        }
    }

    /// N-11: whatever is wrong on the other side, the node is asked about again.
    #[test]
    fn only_a_wrong_object_waits_for_a_change() {
        let waits: Vec<_> = ALL
            .iter()
            .filter(|class| class.requeue() == Requeue::OnChange)
            .map(|class| class.as_str())
            .collect();
        assert_eq!(waits, ["invalid"]);
    }

    #[test]
    fn an_operator_heals_what_backs_off_slowly() {
        let classes = |requeue: Requeue| {
            let alike = ALL.iter().filter(|class| class.requeue() == requeue);
            alike.map(|class| class.as_str()).collect::<Vec<_>>()
        };
        let slow = ["malformed", "forbidden", "unimplemented"];
        assert_eq!(classes(Requeue::SlowBackOff), slow);
        let others = [
            "transient",
            "unavailable",
            "rate_limited",
            "conflict",
            "not_ready",
            "quota",
            // Calls that credentials have paused go on as soon as the pause ends.
            "unauthenticated",
        ];
        assert_eq!(classes(Requeue::BackOff), others);
    }

    /// Failures that concern every object alike, and waits, make no event on each of them.
    #[test]
    fn owners_get_events_of_failures_of_their_object() {
        let classes: Vec<_> = ALL
            .iter()
            .filter(|class| class.is_for_owner())
            .map(|class| class.as_str())
            .collect();
        let expected = [
            "transient",
            "not_ready",
            "quota",
            "invalid",
            "malformed",
            "forbidden",
            "unimplemented",
        ];
        assert_eq!(classes, expected);
    }
}

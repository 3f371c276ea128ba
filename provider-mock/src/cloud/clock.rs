//! Where the cloud's time comes from.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A source of time.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The machine's.
    Wall,
    /// The machine's at one moment, and from there on tokio's: time that a paused runtime skips has
    /// passed in the cloud too.
    Tokio {
        /// Time at that moment.
        started: Timestamp,
        /// The moment.
        origin: Instant,
    },
}

impl Clock {
    /// Follows tokio's clock from now on.
    pub fn tokio() -> Self {
        // The origin first: the cloud is then never behind the machine, whose clock decides when a call
        // began, and an observation from before the call would count for nothing.
        let origin = Instant::now();
        Self::Tokio {
            started: Timestamp::now(),
            origin,
        }
    }

    pub(crate) fn now(self) -> Timestamp {
        match self {
            Self::Wall => Timestamp::now(),
            Self::Tokio { started, origin } => {
                let elapsed = SignedDuration::try_from(origin.elapsed()).unwrap_or_default();
                started.checked_add(elapsed).unwrap_or(started)
            }
        }
    }
}

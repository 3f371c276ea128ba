//! The time that decisions are given.

use jiff::Timestamp;
use tokio::time::Instant;

/// The time of day when the clock was made, and what has passed since: steps of the machine's clock
/// must neither hurry nor delay a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Timestamp,
    since: Instant,
}

impl Default for Clock {
    /// Begins now.
    fn default() -> Self {
        Self {
            began: Timestamp::now(),
            since: Instant::now(),
        }
    }
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        self.began
            .checked_add(self.since.elapsed())
            .unwrap_or(Timestamp::MAX)
    }
}

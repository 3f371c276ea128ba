//! When the provider is asked about a node that is not ready.

use std::time::Duration;

use jiff::Timestamp;

use crate::api_time::after;

/// Checks that are made one period apart, as upstream makes all of them: by then a node that will
/// be ready again soon mostly is.
const PROMPT: u32 = 6;

/// The longest time between two checks, unless the period itself is longer.
const LONGEST: Duration = Duration::from_mins(1);

/// The checks of one node, from when it was seen not to be ready until it is ready or gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    made: u32,
    due: Timestamp,
}

impl Schedule {
    /// A first check then.
    pub const fn starting(due: Timestamp) -> Self {
        Self { made: 0, due }
    }

    /// When the next check is due.
    pub const fn due(&self) -> Timestamp {
        self.due
    }

    /// A check was made: the next ones are a period apart, later twice as far each time.
    pub fn checked(&mut self, now: Timestamp, period: Duration) {
        self.made = self.made.saturating_add(1);
        let doublings = self.made.saturating_sub(PROMPT).min(16);
        let pause = period.saturating_mul(1 << doublings);
        self.due = after(now, pause.min(LONGEST.max(period)));
    }

    /// There is a reason to look earlier this once.
    pub fn no_later_than(&mut self, at: Timestamp) {
        self.due = self.due.min(at);
    }
}

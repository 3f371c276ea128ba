//! The time that decisions are given.
//!
//! A loop has one [`Clock`] for each lease term, which steps of the machine's clock do not change; conditions and events
//! take [`time_of_day`]. A simulation sets its source.

use std::{sync::OnceLock, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

static SOURCE: OnceLock<fn() -> Timestamp> = OnceLock::new();

/// The time of day.
pub fn time_of_day() -> Timestamp {
    SOURCE.get().map_or_else(Timestamp::now, |source| source())
}

/// Takes the time of day from `source` instead of the machine until the process ends. The first call decides.
pub fn set_source(source: fn() -> Timestamp) {
    let _ = SOURCE.set(source);
}

/// The time of day when the clock was made, and what has passed since: steps of the machine's clock
/// must neither hurry nor delay a decision.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Timestamp,
    since: Instant,
}

impl Default for Clock {
    /// Begins now.
    fn default() -> Self {
        Self {
            began: time_of_day(),
            since: Instant::now(),
        }
    }
}

impl Clock {
    /// The time of day, as far as this clock can tell.
    pub fn now(&self) -> Timestamp {
        self.began
            .checked_add(self.since.elapsed())
            .unwrap_or(Timestamp::MAX)
    }
}

/// From `now` to `time`; zero if that has passed.
pub fn until(time: Timestamp, now: Timestamp) -> Duration {
    time.duration_since(now).try_into().unwrap_or_default()
}

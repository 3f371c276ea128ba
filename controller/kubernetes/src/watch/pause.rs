//! The pauses between watches that end early.

use std::time::Duration;

use tokio::time::Instant;

/// Pause after the first failure; doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause between two tries.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(10);

/// How often a watch that goes on failing is logged.
const REMIND: Duration = Duration::from_mins(1);

/// Exponential back-off with jitter over everything that ends a watch early, a clean end included:
/// a server that closes each watch at once must not be asked thousands of times a second.
#[derive(Debug, Default)]
pub(super) struct Pause {
    pub(super) failures: u32,
    /// When a failure was logged last.
    logged: Option<Instant>,
}

impl Pause {
    /// True if a failure is to be logged now: the first, and then one a minute.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.logged.is_none_or(|at| at.elapsed() >= REMIND);
        if is_due {
            self.logged = Some(Instant::now());
        }
        is_due
    }

    /// The next pause; `random` in [0, 1) takes up to half of it away.
    pub(super) fn next(&mut self, random: f64) -> Duration {
        let full = MIN_PAUSE
            .saturating_mul(1 << self.failures.min(16))
            .min(MAX_PAUSE);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(1.0 - random / 2.0)
    }
}

//! How long a failing key waits.

use std::time::Duration;

/// Exponential delay of one key: `base · 2ⁿ` after n earlier failures, never above `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// `base` for the first failure, doubled by each further one up to `cap`.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap }
    }

    /// The delay that follows a failure, given how many were counted before it.
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures);
        self.base.saturating_mul(factor).min(self.cap)
    }
}

impl Default for Backoff {
    /// client-go's: 5 ms up to 1000 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

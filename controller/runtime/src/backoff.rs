//! How long a failing key waits.
//!
//! Queues and retries count failures themselves and ask [`Backoff::delay`]; chance comes in as an argument.
//!
//! ```
//! use outrigger_runtime::backoff::Backoff;
//! use std::time::Duration;
//!
//! let seconds = Duration::from_secs;
//! let backoff = Backoff::new(seconds(5), seconds(300));
//! assert_eq!(backoff.delay(0, Duration::MAX, 0.0), seconds(5));
//! assert_eq!(backoff.delay(3, Duration::MAX, 0.0), seconds(40));
//! assert_eq!(backoff.delay(30, Duration::MAX, 0.0), seconds(300));
//! ```

use std::time::Duration;

/// The part of a delay that jitter takes away at most.
const JITTER: f64 = 0.2;

/// Exponential delay of one key: `base · 2ⁿ` after n earlier failures, never above `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    has_jitter: bool,
}

impl Backoff {
    /// `base` for the first failure, doubled by each further one up to `cap`.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            has_jitter: false,
        }
    }

    /// The same, with up to a fifth of each delay taken away at random (client-go has no jitter): keys that failed
    /// together in one call must not meet in each call after it.
    #[must_use]
    pub const fn with_jitter(mut self) -> Self {
        self.has_jitter = true;
        self
    }

    /// The delay that follows a failure, given how many were counted before it; no more than `limit`. `random` is
    /// from 0 to 1.
    pub fn delay(&self, failures: u32, limit: Duration, random: f64) -> Duration {
        let factor = 2_u32.saturating_pow(failures);
        let longest = self.base.saturating_mul(factor).min(self.cap).min(limit);
        if self.has_jitter {
            longest.mul_f64(1.0 - JITTER * random)
        } else {
            longest
        }
    }
}

impl Default for Backoff {
    /// client-go's: 5 ms up to 1000 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

//! The three durations of an election, checked once.
//!
//! The binary makes [`Durations`] of the flags and refuses to start with those that do not fit together. Each deadline that
//! the elector and the loops derive from them is computed here, the longest time that a write of a term may take among
//! them.

use std::time::{Duration, Instant};

/// Non-leaders spread their tries over `retry_period × [1, 1 + JITTER)` (PROC-24).
const JITTER: f64 = 1.2;

/// `--leader-elect-lease-duration`, `-renew-deadline` and `-retry-period`, which fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Durations {
    /// Upstream's defaults: 15 s, 10 s and 2 s.
    #[cfg(test)]
    pub(super) const DEFAULT: Self = Self {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// How long a write of one leader may take, so that the next one's first list shows it: less than from
    /// the renew deadline to the end of the lease. A fifth of that is left to clocks.
    pub fn write_limit(&self) -> Duration {
        let between = self.lease_duration.saturating_sub(self.renew_deadline);
        between.mul_f64(0.8)
    }

    /// From when on no write of an earlier leader is on its way to the API server, in a lease term that begins at `begun`.
    /// The end of an expired lease comes after them. A process that was killed leaves them behind: `killed` is when those
    /// whose lease this process may take at once were dead.
    pub fn quiet_at(&self, begun: Instant, killed: Option<Instant>) -> Instant {
        killed.map_or(begun, |killed| begun.max(killed + self.write_limit()))
    }

    /// Checks the durations, in upstream's order.
    ///
    /// # Errors
    /// Why they do not fit together (PROC-25); upstream panics with these texts.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, &'static str> {
        if lease_duration <= renew_deadline {
            // A leader could act after another was elected.
            return Err("leaseDuration must be greater than renewDeadline");
        }
        if lease_duration > Duration::from_secs(i32::MAX as u64) {
            // `leaseDurationSeconds` is a 32 bit number.
            return Err("leaseDuration must be at most 2147483647 seconds");
        }
        // Bounded first: the product of a huge retry period would not be a Duration.
        if renew_deadline <= retry_period || renew_deadline <= retry_period.mul_f64(JITTER) {
            // A leader would give up after its first failure.
            return Err("renewDeadline must be greater than retryPeriod*JitterFactor");
        }
        if retry_period.is_zero() {
            return Err("retryPeriod must be greater than zero");
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }

    /// How long non-leaders wait after the last change of the record.
    pub const fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How long the leader goes on acting without an acknowledged renewal.
    pub const fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// How often the leader renews.
    pub const fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// How long a non-leader waits before it tries again; `random` is in [0, 1).
    pub fn retry(&self, random: f64) -> Duration {
        self.retry_period.mul_f64(1.0 + JITTER * random)
    }

    /// How long one request may take (PROC-22), so that a renewal has at least two tries.
    pub fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// The value of `leaseDurationSeconds`. Rounded up, where upstream rounds down: others must
    /// never wait for less than we reckon with.
    pub(super) fn written_seconds(&self) -> i32 {
        let whole = self.lease_duration.as_secs();
        let rest = u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(whole + rest).unwrap_or(i32::MAX)
    }

    /// Until when a leader may act whose last acknowledged renewal was sent at `sent`.
    pub fn deadline(&self, sent: Instant) -> Instant {
        sent + self.renew_deadline
    }
}

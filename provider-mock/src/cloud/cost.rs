//! The cost of a call to the cloud: time, and a token of the quota.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Reads a part of something, such as of the latency, or a probability.
pub fn part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err(format!("{text:?} is no part or probability; use 0 to 1")),
    }
}

/// One latency around `latency`, by up to a part of it. `roll` is in 0..1.
fn vary(latency: Duration, part: f64, roll: f64) -> Duration {
    let factor = 1.0 + part * (2.0 * roll - 1.0);
    latency.mul_f64(factor.max(0.0))
}

/// How many calls per second the cloud accepts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Calls per second; more than 0.
    pub qps: f64,
    /// Calls at once; at least 1.
    pub burst: u32,
}

impl Quota {
    /// That many calls per second, and a second's worth at once.
    pub fn per_second(qps: f64) -> Self {
        Self {
            qps,
            burst: (qps.ceil() as u32).max(1),
        }
    }

    /// A limit that an operator wrote; without a burst a second's worth.
    pub fn checked(qps: f64, burst: Option<u32>) -> Result<Self, String> {
        if !(qps > 0.0 && qps.is_finite()) {
            return Err(format!(
                "{qps} calls per second make no rate limit; use more than 0"
            ));
        }
        let quota = Self::per_second(qps);
        match burst {
            Some(0) => Err("a burst of 0 would accept no call at all; use 1 or more".to_owned()),
            Some(burst) => Ok(Self { burst, ..quota }),
            None => Ok(quota),
        }
    }
}

/// The rate limit refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit of the cloud is used up")]
pub struct RateLimited {
    /// When the next call is accepted.
    pub retry_after: Duration,
}

/// The cost of a call, as it is now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// How long one call takes.
    pub latency: Duration,
    /// How much that varies.
    pub jitter: f64,
    /// How many calls are accepted.
    pub quota: Option<Quota>,
    /// Calls that would be accepted now.
    pub remaining: Option<u32>,
}

/// Prices calls.
#[derive(Debug)]
pub(super) struct Meter {
    latency: Duration,
    jitter: f64,
    bucket: Option<TokenBucket>,
    random: fastrand::Rng,
}

impl Meter {
    pub(super) fn new(
        latency: Duration,
        jitter: f64,
        quota: Option<Quota>,
        random: fastrand::Rng,
    ) -> Self {
        let bucket = quota.map(|quota| TokenBucket::new(quota, Instant::now()));
        Self {
            latency,
            jitter,
            bucket,
            random,
        }
    }

    /// How long the next call takes, or when there may be one.
    pub(super) fn price(&mut self, now: Instant) -> Result<Duration, RateLimited> {
        if let Some(bucket) = &mut self.bucket {
            bucket
                .take(now)
                .map_err(|retry_after| RateLimited { retry_after })?;
        }
        Ok(vary(self.latency, self.jitter, self.random.f64()))
    }

    pub(super) fn cost(&mut self, now: Instant) -> Cost {
        let remaining = self.bucket.as_mut().map(|bucket| bucket.remaining(now));
        let quota = self.bucket.as_ref().map(|bucket| bucket.quota);
        Cost {
            latency: self.latency,
            jitter: self.jitter,
            quota,
            remaining,
        }
    }

    pub(super) fn set_latency(&mut self, latency: Duration, jitter: Option<f64>) {
        self.latency = latency;
        self.jitter = jitter.unwrap_or(self.jitter);
    }

    pub(super) fn set_quota(&mut self, quota: Option<Quota>, now: Instant) {
        self.bucket = quota.map(|quota| TokenBucket::new(quota, now));
    }
}

/// The budget behind a [`Quota`], by the clock that its caller passes.
#[derive(Debug, Clone, PartialEq)]
struct TokenBucket {
    quota: Quota,
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    /// A full one.
    fn new(quota: Quota, now: Instant) -> Self {
        Self {
            quota,
            tokens: f64::from(quota.burst),
            filled_at: now,
        }
    }

    /// Whole tokens that are left.
    fn remaining(&mut self, now: Instant) -> u32 {
        self.refill(now);
        self.tokens as u32
    }

    /// Takes a token, or returns the time until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up to a millisecond: whoever waits that long finds a token.
        let seconds = (1.0 - self.tokens) / self.quota.qps;
        Err(Duration::from_millis((seconds * 1e3).ceil() as u64))
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled_at);
        self.tokens =
            (self.tokens + elapsed.as_secs_f64() * self.quota.qps).min(f64::from(self.quota.burst));
        self.filled_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn jitter_stays_in_its_band() {
        for (text, roll, varied) in [
            ("0", 0.9, ms(20)),
            ("0.2", 0.0, ms(16)),
            ("0.2", 1.0, ms(24)),
            ("1", 0.0, ms(0)),
        ] {
            assert_eq!(vary(ms(20), part(text).unwrap(), roll), varied, "{text}");
        }
        for bad in ["-0.1", "1.5", "5ms"] {
            assert!(part(bad).unwrap_err().contains(bad), "{bad}");
        }
    }

    #[test]
    fn the_bucket_gives_its_burst_then_its_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(
            Quota {
                qps: 10.0,
                burst: 2,
            },
            start,
        );
        assert_eq!(bucket.take(start), Ok(()));
        assert_eq!(bucket.take(start), Ok(()));
        assert_eq!(bucket.take(start), Err(ms(100)));
        assert_eq!(bucket.take(start + ms(40)), Err(ms(60)));
        assert_eq!(
            bucket.take(start + ms(100)),
            Ok(()),
            "the returned wait is enough"
        );
        assert_eq!(bucket.take(start + ms(100)), Err(ms(100)));
        assert_eq!(
            bucket.remaining(start + ms(60_000)),
            2,
            "never more than the burst"
        );
    }

    #[test]
    fn a_slow_quota_still_gives_one_call() {
        let quota = Quota::per_second(0.5);
        assert_eq!(quota.burst, 1);
        let start = Instant::now();
        let mut bucket = TokenBucket::new(quota, start);
        assert_eq!(bucket.take(start), Ok(()));
        assert_eq!(bucket.take(start), Err(ms(2_000)));
    }
}

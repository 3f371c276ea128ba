//! The arithmetic of one class of calls.

use std::time::Duration;

use tokio::time::Instant;

use super::Class;

const CLOUD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// The limits on the calls of one class.
#[derive(Debug)]
pub(in super::super) struct Lane {
    pub(super) in_flight: usize,
    pub(super) bucket: Option<Bucket>,
    pub(super) cloud: Backoff,
    rate_limited_until: Option<Instant>,
    most: usize,
    limit: usize,
    /// Successes since the limit last grew.
    streak: usize,
    halved: Option<Instant>,
}

impl Lane {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            in_flight: 0,
            bucket: None,
            cloud: Backoff::new(CLOUD.0, CLOUD.1),
            rate_limited_until: None,
            most,
            limit: most,
            streak: 0,
            halved: None,
        }
    }

    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// Takes over how many the provider wants at once. One that was overloaded works its way up.
    pub(super) fn allow(&mut self, most: usize) {
        self.most = most;
        self.limit = match self.halved {
            None => most,
            Some(_) => self.limit.min(most),
        };
    }

    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.rate_limited_until.max(self.cloud.until())
    }

    /// Returns how long the pause is, unless one that ends no earlier is on.
    pub(super) fn rate_limited(&mut self, pause: Duration) -> Option<Duration> {
        let until = Instant::now() + pause;
        if self.rate_limited_until >= Some(until) {
            return None;
        }
        self.rate_limited_until = Some(until);
        Some(pause)
    }

    /// Half as many at once. An overload of a call that was already in flight says nothing new.
    pub(super) fn overloaded(&mut self, started: Instant) {
        if self.halved < Some(started) {
            self.halved = Some(Instant::now());
            self.limit = (self.limit / 2).max(1);
            self.streak = 0;
        }
    }

    /// One more at once for each full round of successes.
    pub(super) fn succeeded(&mut self, started: Instant) {
        self.cloud.succeeded(started);
        if self.limit < self.most && self.halved < Some(started) {
            self.streak += 1;
            if self.streak >= self.limit {
                self.limit += 1;
                self.streak = 0;
            }
        }
    }

    /// Forgets what a process that is gone has complained about.
    pub(super) const fn forgive(&mut self) {
        self.cloud.reset();
        self.limit = self.most;
        self.streak = 0;
        self.halved = None;
    }
}

/// A pause that doubles from failure to failure.
#[derive(Debug)]
pub(in super::super) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    declared: Option<Instant>,
    until: Option<Instant>,
}

impl Backoff {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
            declared: None,
            until: None,
        }
    }

    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns how long the pause is. A call that was under way when the last one began does not
    /// begin another: one outage fails all calls in flight.
    pub(super) fn failed(&mut self, started: Instant, asked: Option<Duration>) -> Option<Duration> {
        if self.declared >= Some(started) {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << self.failures.min(16));
        let pause = doubled.min(self.longest).max(asked.unwrap_or_default());
        let now = Instant::now();
        self.failures += 1;
        self.declared = Some(now);
        self.until = Some(now + pause);
        Some(pause)
    }

    pub(super) fn succeeded(&mut self, started: Instant) {
        if self.declared < Some(started) {
            self.failures = 0;
        }
    }

    pub(super) const fn reset(&mut self) {
        self.failures = 0;
        self.declared = None;
        self.until = None;
    }
}

/// A limit from the handshake, on one class or on all together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Rate {
    pub(super) class: Option<Class>,
    pub(super) qps: f64,
    pub(super) burst: u32,
}

/// A token bucket, kept as the time at which it is full again.
#[derive(Debug)]
pub(in super::super) struct Bucket {
    token: Duration,
    tolerance: Duration,
    full: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(rate: &Rate) -> Self {
        // An hour a call is as slow as makes a difference, and keeps the sums within bounds.
        let token = Duration::from_secs_f64(rate.qps.recip().clamp(1e-9, 3600.0));
        Self {
            token,
            tolerance: token.saturating_mul(rate.burst.clamp(1, 100_000) - 1),
            full: None,
        }
    }

    /// When the next call may go out, if not now, once `ahead` others have.
    pub(super) fn next(&self, now: Instant, ahead: usize) -> Option<Instant> {
        let full = self.full.map_or(now, |full| full.max(now));
        let full = full + self.token.saturating_mul(ahead as u32);
        let earliest = full.checked_sub(self.tolerance)?;
        (earliest > now).then_some(earliest)
    }

    pub(super) fn take(&mut self, now: Instant) {
        self.full = Some(self.full.map_or(now, |full| full.max(now)) + self.token);
    }
}

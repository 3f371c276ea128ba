//! The arithmetic of the limits on calls: places in flight, rates and pauses by class, without any wait.
//!
//! [`super::Admission`] holds it under one lock and waits for what it says.

use std::{sync::Arc, time::Duration};

use outrigger_api::v1::{self, ErrorReason};
use tokio::{sync::Semaphore, time::Instant};

use super::{CLASSES, CallClass};

/// Calls of a class in flight, until the provider has declared another number.
const MAX_IN_FLIGHT: usize = 4;

/// The limits on all calls, by class; all together have a rate, and a pause.
#[derive(Debug, Default)]
pub(super) struct CallLimits([ClassLimits; CallClass::Volumes as usize + 1]);

/// The limits on the calls of one class.
#[derive(Debug)]
pub(super) struct ClassLimits {
    max_in_flight: usize,
    /// Places for the calls in flight.
    pub(super) places: Arc<Semaphore>,
    rate: Option<TokenBucket>,
    pub(super) pause: ClassPause,
}

impl CallLimits {
    pub(super) const fn class(&mut self, class: CallClass) -> &mut ClassLimits {
        &mut self.0[class as usize]
    }

    /// Adopts how many calls of `class` the provider wants in flight. Calls to a provider that wanted another number count
    /// no longer.
    pub(super) fn allow(&mut self, class: CallClass, max_in_flight: usize) {
        let limits = self.class(class);
        if limits.max_in_flight != max_in_flight {
            limits.max_in_flight = max_in_flight;
            limits.places = Arc::new(Semaphore::new(max_in_flight));
        }
    }

    /// Admits a call that goes out at once, or returns when to look again.
    pub(super) fn admit(&mut self, class: CallClass, now: Instant) -> Result<(), Instant> {
        if let Some(until) = self.paused_until(class, now) {
            return Err(until);
        }
        let rates = [class, CallClass::All];
        for class in rates {
            let bucket = self.class(class).rate.as_ref();
            if let Some(until) = bucket.and_then(|bucket| bucket.next(now)) {
                return Err(until);
            }
        }
        for class in rates {
            if let Some(bucket) = &mut self.class(class).rate {
                bucket.take(now);
            }
        }
        Ok(())
    }

    /// The token of a call of `class` was not used.
    pub(super) fn give_back(&mut self, class: CallClass) {
        for class in [class, CallClass::All] {
            if let Some(bucket) = &mut self.class(class).rate {
                bucket.full = bucket.full.and_then(|full| full.checked_sub(bucket.token));
            }
        }
    }

    /// When the pause of `class` ends, if it is paused.
    pub(super) fn paused_until(&self, class: CallClass, now: Instant) -> Option<Instant> {
        let until = [class, CallClass::All].map(|class| self.0[class as usize].pause.until);
        let until = until.into_iter().max().flatten();
        until.filter(|until| *until > now)
    }

    /// Adopts what a handshake declared. A new process may have new credentials and a new way to its
    /// cloud, so its predecessor's pauses end; the cloud's own limits stay.
    pub(super) fn renew(&mut self, rates: &[v1::RateLimit], new_process: bool) {
        for class in CLASSES.into_iter().chain([CallClass::All]) {
            let limits = self.class(class);
            // A handshake gives no tokens back: the cloud counts on.
            let full = limits.rate.as_ref().and_then(|before| before.full);
            let named = rates.iter().filter(|rate| rate.call_class() == class);
            let buckets = named.filter_map(|rate| TokenBucket::new(rate, full));
            // Two for one class break the contract; the lower one is safe.
            limits.rate = buckets.max_by_key(|bucket| bucket.token);
            if new_process && limits.pause.reason != ErrorReason::RateLimited {
                limits.pause = ClassPause::default();
            }
        }
    }
}

impl Default for ClassLimits {
    fn default() -> Self {
        Self {
            max_in_flight: MAX_IN_FLIGHT,
            places: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            rate: None,
            pause: ClassPause::default(),
        }
    }
}

/// A pause of a class, or of all. The pauses for one reason double from failure to failure, within the bounds of the
/// reason.
#[derive(Debug, Default)]
pub(super) struct ClassPause {
    reason: ErrorReason,
    failures: u32,
    began: Option<Instant>,
    until: Option<Instant>,
}

impl ClassPause {
    /// A call that began at `started` failed. Returns how long the pause is if it ends later by it, and by how much. A call
    /// that was in flight when the last pause began does not begin another, since one outage fails all calls in flight:
    /// it can only ask for a longer one.
    pub(super) fn failed(
        &mut self,
        reason: ErrorReason,
        (first, longest): (Duration, Duration),
        started: Instant,
        requested: Option<Duration>,
    ) -> Option<(Duration, Duration)> {
        let now = Instant::now();
        let pause = if self.began >= Some(started) {
            requested?
        } else {
            if self.reason != reason {
                self.failures = 0;
            }
            let doubled = first.saturating_mul(1 << self.failures.min(16));
            self.failures += 1;
            self.began = Some(now);
            doubled.min(longest).max(requested.unwrap_or_default())
        };
        let until = now + pause;
        let before = self.until.map_or(now, |before| before.max(now));
        if until <= before {
            return None;
        }
        (self.reason, self.until) = (reason, Some(until));
        Some((pause, until - before))
    }

    /// A call that began at `started` was answered.
    pub(super) fn succeeded(&mut self, started: Instant) {
        if self.began < Some(started) {
            self.failures = 0;
        }
    }
}

/// A token bucket, kept as the time at which it is full again. That of governor can neither be read
/// without taking a token nor take one back.
#[derive(Debug)]
struct TokenBucket {
    token: Duration,
    tolerance: Duration,
    full: Option<Instant>,
}

impl TokenBucket {
    /// The bucket of a limit, full again at this time. A limit that makes no sense limits nothing.
    fn new(limit: &v1::RateLimit, full: Option<Instant>) -> Option<Self> {
        (limit.qps.is_finite() && limit.qps > 0.0).then(|| {
            // An hour a call is as slow as makes a difference, and keeps the sums within bounds.
            let token = Duration::from_secs_f64(limit.qps.recip().clamp(1e-9, 3600.0));
            Self {
                token,
                tolerance: token.saturating_mul(limit.burst.clamp(1, 100_000) - 1),
                full,
            }
        })
    }

    /// When the next call may go out, if not now.
    fn next(&self, now: Instant) -> Option<Instant> {
        let full = self.full.map_or(now, |full| full.max(now));
        let earliest = full.checked_sub(self.tolerance)?;
        (earliest > now).then_some(earliest)
    }

    fn take(&mut self, now: Instant) {
        self.full = Some(self.full.map_or(now, |full| full.max(now)) + self.token);
    }
}

//! The arithmetic of the limits on calls.

use std::time::Duration;

use outrigger_api::v1::{self, ErrorReason};
use tokio::time::Instant;

use super::{CLASSES, CallClass, Urgency};

/// Calls of a class in flight, until the provider has declared another number.
const MAX_IN_FLIGHT: usize = 4;

/// The limits on all calls.
#[derive(Debug)]
pub(super) struct CallLimits {
    /// By class; all together have a rate, and a pause.
    classes: [ClassLimits; CallClass::Volumes as usize + 1],
    /// Calls that wait, by urgency.
    waiting: [usize; Urgency::ALL.len()],
}

/// The limits on the calls of one class.
#[derive(Debug)]
pub(super) struct ClassLimits {
    pub(super) in_flight: usize,
    pub(super) max_in_flight: usize,
    rate: Option<TokenBucket>,
    pub(super) pause: ClassPause,
}

impl CallLimits {
    pub(super) fn new() -> Self {
        Self {
            classes: Default::default(),
            waiting: Default::default(),
        }
    }

    pub(super) const fn class(&mut self, class: CallClass) -> &mut ClassLimits {
        &mut self.classes[class as usize]
    }

    /// Calls of this urgency that wait.
    pub(super) const fn waiting(&mut self, urgency: Urgency) -> &mut usize {
        &mut self.waiting[urgency as usize]
    }

    /// Admits a call that goes out at once, or returns when to look again; none: after the end of another call.
    pub(super) fn admit(&mut self, urgency: Urgency, now: Instant) -> Result<(), Option<Instant>> {
        let class = urgency.class();
        if let Some(until) = self.paused_until(class, now) {
            return Err(Some(until));
        }
        // More urgent calls that only wait for what this one would take.
        let ahead = self.waiting.iter().zip(Urgency::ALL);
        let ahead = ahead.take(urgency as usize).filter(|(_, other)| {
            let is_of_class = other.class() == class;
            let is_free = || self.has_token(other.class(), now);
            !self.is_held(*other, now) && (is_of_class || is_free())
        });
        let (mut of_class, mut of_all) = (0, 0);
        for (count, other) in ahead {
            of_all += count;
            of_class += if other.class() == class { *count } else { 0 };
        }
        let limits = &self.classes[class as usize];
        if urgency.is_counted() && limits.in_flight + of_class >= limits.max_in_flight {
            return Err(None);
        }
        let rates = [(class, of_class), (CallClass::All, of_all)];
        for (class, ahead) in rates {
            let bucket = self.classes[class as usize].rate.as_ref();
            if let Some(until) = bucket.and_then(|bucket| bucket.next(now, ahead)) {
                return Err(Some(until));
            }
        }
        for (class, _) in rates {
            if let Some(bucket) = &mut self.class(class).rate {
                bucket.take(now);
            }
        }
        self.class(class).in_flight += usize::from(urgency.is_counted());
        Ok(())
    }

    /// Returns true if calls of this urgency wait for the end of a pause or of another call.
    fn is_held(&self, urgency: Urgency, now: Instant) -> bool {
        let limits = &self.classes[urgency.class() as usize];
        let is_full = urgency.is_counted() && limits.in_flight >= limits.max_in_flight;
        is_full || self.paused_until(urgency.class(), now).is_some()
    }

    fn has_token(&self, class: CallClass, now: Instant) -> bool {
        let bucket = self.classes[class as usize].rate.as_ref();
        bucket.is_none_or(|bucket| bucket.next(now, 0).is_none())
    }

    /// The token of a call of `class` was not used.
    pub(super) fn give_back(&mut self, class: CallClass) {
        for class in [class, CallClass::All] {
            if let Some(bucket) = &mut self.classes[class as usize].rate {
                bucket.full = bucket.full.and_then(|full| full.checked_sub(bucket.token));
            }
        }
    }

    /// When the pause of `class` ends, if it is paused.
    pub(super) fn paused_until(&self, class: CallClass, now: Instant) -> Option<Instant> {
        let until = [class, CallClass::All].map(|class| self.classes[class as usize].pause.until);
        until
            .into_iter()
            .max()
            .flatten()
            .filter(|until| *until > now)
    }

    /// Adopts what a handshake declared. A new process may have new credentials and a new way to its
    /// cloud, so its predecessor's pauses end; the cloud's own limits stay.
    pub(super) fn renew(&mut self, rates: &[Rate], new_process: bool) {
        for class in CLASSES.into_iter().chain([CallClass::All]) {
            let named = rates.iter().filter(|rate| rate.class == class);
            // Two for one class break the contract; the lower one is safe.
            let rate = named.min_by(|a, b| a.qps.total_cmp(&b.qps));
            let limits = self.class(class);
            // A handshake gives no tokens back: the cloud counts on.
            let full = limits.rate.as_ref().and_then(|before| before.full);
            limits.rate = rate.map(|rate| TokenBucket {
                full,
                ..TokenBucket::new(rate)
            });
            if new_process && limits.pause.reason != ErrorReason::RateLimited {
                limits.pause = ClassPause::default();
            }
        }
    }
}

impl Default for ClassLimits {
    fn default() -> Self {
        Self {
            in_flight: 0,
            max_in_flight: MAX_IN_FLIGHT,
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

/// A limit from the handshake, on one class or on all together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    pub(super) class: CallClass,
    pub(super) qps: f64,
    pub(super) burst: u32,
}

impl Rate {
    /// Reads one limit of a handshake. An invalid limit limits nothing.
    pub(crate) fn read(limit: &v1::RateLimit) -> Option<Self> {
        let class = limit.call_class();
        let is_named = class != CallClass::Unspecified;
        (is_named && limit.qps.is_finite() && limit.qps > 0.0).then(|| Self {
            class,
            qps: limit.qps,
            burst: limit.burst.max(1),
        })
    }
}

/// A token bucket, kept as the time at which it is full again. That of governor can neither be read
/// without taking a token nor serve calls by their urgency.
#[derive(Debug)]
struct TokenBucket {
    token: Duration,
    tolerance: Duration,
    full: Option<Instant>,
}

impl TokenBucket {
    fn new(rate: &Rate) -> Self {
        // An hour a call is as slow as makes a difference, and keeps the sums within bounds.
        let token = Duration::from_secs_f64(rate.qps.recip().clamp(1e-9, 3600.0));
        Self {
            token,
            tolerance: token.saturating_mul(rate.burst.clamp(1, 100_000) - 1),
            full: None,
        }
    }

    /// When the next call may go out, if not now, once `ahead` others have.
    fn next(&self, now: Instant, ahead: usize) -> Option<Instant> {
        let full = self.full.map_or(now, |full| full.max(now));
        let full = full + self.token.saturating_mul(ahead as u32);
        let earliest = full.checked_sub(self.tolerance)?;
        (earliest > now).then_some(earliest)
    }

    fn take(&mut self, now: Instant) {
        self.full = Some(self.full.map_or(now, |full| full.max(now)) + self.token);
    }
}

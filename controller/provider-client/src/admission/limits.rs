//! The arithmetic of the limits on calls.

use std::time::Duration;

use outrigger_api::v1;
use tokio::time::Instant;

use super::{CLASSES, CallClass, Urgency};

/// Calls of a class in flight, until the provider has declared another number.
const MAX_IN_FLIGHT: usize = 4;
const OVERLOADED: Duration = Duration::from_secs(1);
const CLOUD_UNAVAILABLE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
const CREDENTIALS_INVALID: (Duration, Duration) = (Duration::from_mins(1), Duration::from_mins(10));
/// How long after a pause for the cloud's rate limit one call is in flight at a time. A cloud refuses at once, so
/// a call that runs for longer has been let in.
const ONE_AT_A_TIME: Duration = Duration::from_secs(2);

/// A limit that calls wait for in the order of their urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Calls of a class in flight.
    InFlight,
    /// Calls of a class a second.
    Rate,
    /// Calls of all classes a second.
    TotalRate,
}

/// Why a call has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// `None` if its class is paused.
    pub(super) limit: Option<Limit>,
    /// `None` if it waits until another call ends.
    pub(super) until: Option<Instant>,
}

/// The limits on all calls.
#[derive(Debug)]
pub(super) struct CallLimits {
    /// By class; that of all together has a rate only.
    classes: [ClassLimits; CallClass::Volumes as usize + 1],
    pub(super) credentials: GrowingPause,
    /// Calls that wait, by limit and urgency.
    waiting: [[usize; Urgency::ALL.len()]; 3],
}

/// The limits on the calls of one class.
#[derive(Debug)]
pub(super) struct ClassLimits {
    pub(super) in_flight: usize,
    pub(super) max_in_flight: usize,
    rate: Option<TokenBucket>,
    rate_limited_until: Option<Instant>,
    /// When the cloud's rate limit last refused a call; none once a call that began later was answered otherwise.
    rate_limited_at: Option<Instant>,
    pub(super) overloaded: GrowingPause,
    pub(super) cloud: GrowingPause,
}

impl CallLimits {
    pub(super) fn new() -> Self {
        let (first, longest) = CREDENTIALS_INVALID;
        Self {
            classes: Default::default(),
            credentials: GrowingPause::new(first, longest),
            waiting: Default::default(),
        }
    }

    pub(super) const fn class(&mut self, class: CallClass) -> &mut ClassLimits {
        &mut self.classes[class as usize]
    }

    /// Calls of this urgency that wait for `limit`.
    pub(super) const fn waiting(&mut self, limit: Limit, urgency: Urgency) -> &mut usize {
        &mut self.waiting[limit as usize][urgency as usize]
    }

    /// More urgent calls that wait for `limit`.
    fn ahead(&self, limit: Limit, urgency: Urgency) -> usize {
        let waiting = Urgency::ALL.iter().zip(&self.waiting[limit as usize]);
        waiting
            .take(urgency as usize)
            .filter(|(other, _)| limit == Limit::TotalRate || other.class() == urgency.class())
            .map(|(_, count)| count)
            .sum()
    }

    /// Admits a call that goes out at once, or returns what it has to wait for.
    pub(super) fn admit(&mut self, urgency: Urgency, now: Instant) -> Result<(), Wait> {
        if let Some(until) = self.paused_until(urgency.class(), now) {
            return Err(Wait {
                limit: None,
                until: Some(until),
            });
        }
        let [calls_ahead, ahead, total_ahead] = [Limit::InFlight, Limit::Rate, Limit::TotalRate]
            .map(|limit| self.ahead(limit, urgency));
        let class = &self.classes[urgency.class() as usize];
        let (max_in_flight, until) = class.calls_allowed(now);
        if urgency.is_counted() && class.in_flight + calls_ahead >= max_in_flight {
            return Err(Wait {
                limit: Some(Limit::InFlight),
                until,
            });
        }
        let rates = [
            (Limit::Rate, urgency.class(), ahead),
            (Limit::TotalRate, CallClass::All, total_ahead),
        ];
        for (limit, class, ahead) in rates {
            let bucket = self.classes[class as usize].rate.as_ref();
            if let Some(until) = bucket.and_then(|bucket| bucket.next(now, ahead)) {
                return Err(Wait {
                    limit: Some(limit),
                    until: Some(until),
                });
            }
        }
        for (_, class, _) in rates {
            if let Some(bucket) = &mut self.classes[class as usize].rate {
                bucket.take(now);
            }
        }
        let class = &mut self.classes[urgency.class() as usize];
        if urgency.is_counted() {
            class.in_flight += 1;
        }
        Ok(())
    }

    /// When the pause of `class` ends, if it is paused.
    pub(super) fn paused_until(&self, class: CallClass, now: Instant) -> Option<Instant> {
        let class = &self.classes[class as usize];
        let until = class
            .rate_limited_until
            .max(class.overloaded.until)
            .max(class.cloud.until)
            .max(self.credentials.until);
        until.filter(|until| *until > now)
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
            if new_process {
                limits.overloaded.reset();
                limits.cloud.reset();
            }
        }
        if new_process {
            self.credentials.reset();
        }
    }
}

impl Default for ClassLimits {
    fn default() -> Self {
        Self {
            in_flight: 0,
            max_in_flight: MAX_IN_FLIGHT,
            rate: None,
            rate_limited_until: None,
            rate_limited_at: None,
            overloaded: GrowingPause::new(OVERLOADED, OVERLOADED),
            cloud: GrowingPause::new(CLOUD_UNAVAILABLE.0, CLOUD_UNAVAILABLE.1),
        }
    }
}

impl ClassLimits {
    /// How many calls may be in flight, and until when it is fewer than the provider declared. After the cloud's
    /// rate limit it is one: all together they would be refused again, each after a part of its work.
    fn calls_allowed(&self, now: Instant) -> (usize, Option<Instant>) {
        let limited = self.rate_limited_at.and(self.rate_limited_until);
        match limited.map(|until| until + ONE_AT_A_TIME) {
            Some(until) if now < until => (self.max_in_flight.min(1), Some(until)),
            _ => (self.max_in_flight, None),
        }
    }

    /// A call that began at `started` was not refused by the cloud's rate limit.
    pub(super) fn not_rate_limited(&mut self, started: Instant) {
        if self.rate_limited_at.is_some_and(|at| at < started) {
            self.rate_limited_at = None;
        }
    }

    /// Returns how long the pause is, unless one that ends no earlier is on.
    pub(super) fn rate_limited(&mut self, pause: Duration) -> Option<Duration> {
        let now = Instant::now();
        self.rate_limited_at = Some(now);
        let until = now + pause;
        if self.rate_limited_until >= Some(until) {
            return None;
        }
        self.rate_limited_until = Some(until);
        Some(pause)
    }
}

/// A pause that doubles from failure to failure.
#[derive(Debug)]
pub(super) struct GrowingPause {
    first: Duration,
    longest: Duration,
    failures: u32,
    began: Option<Instant>,
    until: Option<Instant>,
    /// The start of the last call that was answered, and the failures before it: one of its objects may yet speak
    /// for all.
    answered: Option<(Instant, u32)>,
}

impl GrowingPause {
    const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
            began: None,
            until: None,
            answered: None,
        }
    }

    /// Returns how long the pause is. A call that was in flight when the last one began does not
    /// begin another: one outage fails all calls in flight.
    pub(super) fn failed(
        &mut self,
        started: Instant,
        requested_pause: Option<Duration>,
    ) -> Option<Duration> {
        if self.began >= Some(started) {
            return None;
        }
        if let Some((_, failures)) = self.answered.take_if(|(call, _)| *call == started) {
            self.failures = failures;
        }
        let doubled = self.first.saturating_mul(1 << self.failures.min(16));
        let pause = doubled
            .min(self.longest)
            .max(requested_pause.unwrap_or_default());
        let now = Instant::now();
        self.failures += 1;
        self.began = Some(now);
        self.until = Some(now + pause);
        Some(pause)
    }

    pub(super) fn succeeded(&mut self, started: Instant) {
        if self.began < Some(started) {
            self.answered = Some((started, self.failures));
            self.failures = 0;
        }
    }

    const fn reset(&mut self) {
        *self = Self::new(self.first, self.longest);
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

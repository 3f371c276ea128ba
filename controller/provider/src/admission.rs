//! Admission of calls: each call but handshake and heartbeat waits here until it may go out.
//!
//! All that can delay a call to the provider, in the order in which a call meets it:
//!
//! | mechanism | delays | it remains because |
//! |---|---|---|
//! | gate of the queue | all keys | without a provider that serves, each key would fail and back off |
//! | back-off in the queue | one key | its failure concerns no other key |
//! | semaphores of a loop | keys of the loop | operators bound its work by flags |
//! | window of a batch (`batch`) | lookups, 25 to 250 ms | a full batch is one call to the cloud |
//! | pause | a class of calls, or all | the provider names a reason that concerns all of them |
//! | calls in flight | a class | the provider declares how many it takes at once |
//! | rates | a class or all | the provider declares the rates of its cloud |
//!
//! The last three are here. A pause alone follows from another key's failure, and only where the reason concerns the class:
//! a full process pauses it as well, for a second, and is called no less at once then, for the provider declares how many
//! it accepts. A single caller of each kind waits here, so that thousands of one kind keep no other from its turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub(super) use outrigger_api::v1::CallClass;
use outrigger_api::{Method, v1::ErrorReason};
use outrigger_core::error_class::CLASS_PAUSE;
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as Turn, OwnedSemaphorePermit},
    time::{Instant, sleep_until},
};
use tracing::warn;

use super::{Error, HandshakeResult, Session, metrics::ProviderMetrics};
use outrigger_runtime::telemetry::Repeats;

mod limits;

use limits::CallLimits;

/// Classes of calls that are limited and paused, each for itself.
pub(super) const CLASSES: [CallClass; 4] = [
    CallClass::Instances,
    CallClass::LoadBalancers,
    CallClass::Routes,
    CallClass::Volumes,
];

/// The value of the metric's label `class`.
pub(super) const fn class_label(class: CallClass) -> &'static str {
    match class {
        CallClass::Unspecified => "none",
        CallClass::All => "all",
        CallClass::Instances => "instances",
        CallClass::LoadBalancers => "load_balancers",
        CallClass::Routes => "routes",
        CallClass::Volumes => "volumes",
    }
}

/// Returns true if a call counts as one of those in flight. Looks at load balancers and routes do not: a long list must not
/// delay changes.
const fn is_counted(method: &Method) -> bool {
    method.changes_cloud || matches!(method.class, CallClass::Instances | CallClass::Volumes)
}

/// Pause after a `RATE_LIMITED` without `RetryInfo`.
const RATE_LIMITED: Duration = Duration::from_secs(30);

/// The first and the longest pause for a reason that pauses calls, besides the time that the provider names: see Waits
/// in the contract's `common.proto`.
const fn pauses_for(reason: ErrorReason) -> Option<(Duration, Duration)> {
    let (first, longest) = match reason {
        ErrorReason::RateLimited => (0, 0),
        ErrorReason::Overloaded => (1, 1),
        ErrorReason::CloudUnavailable => (1, 60),
        ErrorReason::CredentialsInvalid => (60, 600),
        _ => return None,
    };
    Some((Duration::from_secs(first), Duration::from_secs(longest)))
}

/// Admits calls.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Mutex<CallLimits>,
    /// By class: of thousands of calls that wait for a pause or a rate, one competes with those of other classes.
    turns: [Turn<()>; CallClass::Volumes as usize + 1],
    /// Reasons of pauses.
    repeats: Repeats,
    metrics: ProviderMetrics,
}

/// The right to begin one call, on the session that it was given for. The call is to be made at once: others wait for it.
/// Dropped without a call, it does not count for the rates that the provider declares.
#[derive(Debug)]
pub struct Slot {
    pub(super) permit: Permit,
    pub(super) session: Arc<Session>,
}

/// Permit for one call.
#[derive(Debug)]
pub(super) struct Permit {
    admission: Arc<Admission>,
    class: CallClass,
    started: Instant,
    /// The place among the calls in flight, for a call that counts as one.
    _place: Option<OwnedSemaphorePermit>,
    has_begun: AtomicBool,
}

impl Admission {
    pub(super) fn new(metrics: ProviderMetrics) -> Self {
        Self {
            limits: Mutex::default(),
            turns: Default::default(),
            repeats: Repeats::default(),
            metrics,
        }
    }

    /// Adopts the limits that a handshake declared. In a new process, pauses that the former one asked
    /// for end, except for those of the cloud's rate limit.
    pub(super) fn adopt(&self, declared: &HandshakeResult, new_process: bool) {
        let mut limits = self.limits.lock();
        limits.renew(&declared.rates, new_process);
        if let Some(offered) = &declared.load_balancers {
            limits.allow(CallClass::LoadBalancers, offered.max_in_flight);
        }
        if let Some(offered) = &declared.routes {
            limits.allow(CallClass::Routes, offered.max_in_flight);
        }
        if let Some(offered) = &declared.volumes {
            limits.allow(CallClass::Volumes, offered.max_in_flight);
        }
    }

    /// When the pause of `class` ends, if it is paused now.
    pub(super) fn paused_until(&self, class: CallClass) -> Option<Instant> {
        self.limits.lock().paused_until(class, Instant::now())
    }

    /// Waits until a call of `method` may go out: for its place, then for its turn in its class, then for time.
    pub(super) async fn enter(self: &Arc<Self>, method: &Method) -> Permit {
        let class = method.class;
        let place = if is_counted(method) {
            let places = Arc::clone(&self.limits.lock().class(class).places);
            // They are never closed.
            places.acquire_owned().await.ok()
        } else {
            None
        };
        let _turn = self.turns[class as usize].lock().await;
        loop {
            let started = Instant::now();
            let admitted = self.limits.lock().admit(class, started);
            let Err(until) = admitted else {
                return Permit {
                    admission: Arc::clone(self),
                    class,
                    started,
                    _place: place,
                    has_begun: AtomicBool::new(false),
                };
            };
            sleep_until(until).await;
        }
    }
}

impl Slot {
    /// Its call begins, on this session.
    pub(super) fn begin(&self) -> &Session {
        self.permit.has_begun.store(true, Ordering::Relaxed);
        &self.session
    }
}

impl Permit {
    /// Its call has ended, with an error of its own or of an item that speaks for the whole class.
    pub(super) fn ended(&self, error: Option<&Error>) {
        let Some(error) = error else {
            let mut limits = self.admission.limits.lock();
            for class in [CallClass::All, self.class] {
                limits.class(class).pause.succeeded(self.started);
            }
            return;
        };
        if let Some((reason, retry_after)) = error.effective_reason() {
            self.pause(error, reason, retry_after);
        }
    }

    /// Pauses the calls that `reason` concerns, if it concerns more than one object.
    pub(super) fn pause(&self, error: &Error, reason: ErrorReason, retry_after: Option<Duration>) {
        let Some(bounds) = pauses_for(reason) else {
            return;
        };
        let requested = retry_after.map(|after| CLASS_PAUSE.clamp(after));
        let requested = match reason {
            ErrorReason::RateLimited => requested.or(Some(RATE_LIMITED)),
            // The time concerns the key alone.
            ErrorReason::Overloaded => None,
            _ => requested,
        };
        let concerned = match reason {
            ErrorReason::CredentialsInvalid => CallClass::All,
            _ => self.class,
        };
        let pause = {
            let mut limits = self.admission.limits.lock();
            let pause = &mut limits.class(concerned).pause;
            pause.failed(reason, bounds, self.started, requested)
        };
        let Some((pause, more)) = pause else { return };
        let (class, reason) = (class_label(concerned), super::error::reason_name(reason));
        self.admission.metrics.paused(class, reason, more);
        let repeats = &self.admission.repeats;
        if let Some(others) = repeats.due(&format!("{class} {reason}")) {
            warn!(
                class,
                reason,
                ?pause,
                others,
                %error,
                "calls to the provider pause"
            );
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !*self.has_begun.get_mut() {
            self.admission.limits.lock().give_back(self.class);
        }
    }
}

#[cfg(test)]
mod tests;

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
//! The last three are here. A pause alone follows from another key's failure, and only where the reason
//! concerns the class: a full process pauses it as well, for a second, and is called no less at once then,
//! for the provider declares how many it accepts. A single caller of each kind waits here, so that thousands of one kind keep
//! no other from its turn.

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
    sync::{Mutex as Turn, MutexGuard as TurnGuard, watch},
    time::{Instant, sleep_until},
};
use tracing::warn;

use super::{Error, metrics::ProviderMetrics};
use outrigger_runtime::telemetry::Repeats;

mod limits;

use limits::CallLimits;
pub(super) use limits::Rate;

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
    /// By class, for calls that count as in flight and for those that do not.
    turns: [[Turn<()>; 2]; CallClass::Volumes as usize + 1],
    /// Wakes the calls that wait, after a change that no clock announces.
    changed: watch::Sender<()>,
    /// Reasons of pauses.
    repeats: Repeats,
    metrics: ProviderMetrics,
}

/// Permit for one call. Must receive the result of the call.
#[derive(Debug)]
pub(super) struct Permit {
    admission: Arc<Admission>,
    method: &'static Method,
    started: Instant,
    /// True while the call counts as answered.
    has_succeeded: AtomicBool,
}

impl Admission {
    pub(super) fn new(metrics: ProviderMetrics) -> Self {
        Self {
            limits: Mutex::new(CallLimits::new()),
            turns: Default::default(),
            changed: watch::Sender::new(()),
            repeats: Repeats::default(),
            metrics,
        }
    }

    /// Adopts the rates that a handshake declared. In a new process, pauses that the former one asked
    /// for end, except for those of the cloud's rate limit.
    pub(super) fn renew(&self, rates: &[Rate], new_process: bool) {
        self.limits.lock().renew(rates, new_process);
        self.changed.send_replace(());
    }

    /// Adopts how many calls of `class` the provider wants in flight.
    pub(super) fn allow(&self, class: CallClass, max_in_flight: usize) {
        self.limits.lock().class(class).max_in_flight = max_in_flight;
        self.changed.send_replace(());
    }

    /// When the pause of `class` ends, if it is paused now.
    pub(super) fn paused_until(&self, class: CallClass) -> Option<Instant> {
        self.limits.lock().paused_until(class, Instant::now())
    }

    /// Waits for the turn of one caller among those of the same kind, in their order: of thousands that wait, the end of a
    /// call wakes one.
    pub(super) async fn turn(&self, method: &Method) -> TurnGuard<'_, ()> {
        let [other, counted] = &self.turns[method.class as usize];
        let turn = if is_counted(method) { counted } else { other };
        turn.lock().await
    }

    /// Waits until a call of `method` may go out.
    pub(super) async fn enter(self: &Arc<Self>, method: &'static Method) -> Permit {
        let mut changed = self.changed.subscribe();
        loop {
            let started = Instant::now();
            let admitted = self.limits.lock().admit(method, started);
            let Err(until) = admitted else {
                return Permit {
                    admission: Arc::clone(self),
                    method,
                    started,
                    has_succeeded: AtomicBool::new(false),
                };
            };
            let elapsed = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = elapsed => {}
                // The sender is in `self`.
                _ = changed.changed() => {}
            }
        }
    }
}

impl Permit {
    /// No call is made with it: its token is there for another call.
    pub(super) fn unused(&self) {
        let mut limits = self.admission.limits.lock();
        limits.give_back(self.method.class);
        drop(limits);
        self.admission.changed.send_replace(());
    }

    /// The provider answered. An object of the call may yet speak for all.
    pub(super) fn succeeded(&self) {
        self.has_succeeded.store(true, Ordering::Relaxed);
    }

    /// The call failed, or one of its items in a way that speaks for the whole class.
    pub(super) fn failed(&self, error: &Error) {
        if let Some((reason, retry_after)) = error.effective_reason() {
            self.pause(error, reason, retry_after);
        }
    }

    /// All calls about several objects failed, without a reason: more of them would fail the same way.
    pub(super) fn all_failed(&self, error: &Error) {
        self.pause(error, ErrorReason::CloudUnavailable, None);
    }

    fn pause(&self, error: &Error, reason: ErrorReason, retry_after: Option<Duration>) {
        let Some(bounds) = pauses_for(reason) else {
            return;
        };
        self.has_succeeded.store(false, Ordering::Relaxed);
        let requested = retry_after.map(|after| CLASS_PAUSE.clamp(after));
        let requested = match reason {
            ErrorReason::RateLimited => requested.or(Some(RATE_LIMITED)),
            // The time concerns the key alone.
            ErrorReason::Overloaded => None,
            _ => requested,
        };
        let concerned = match reason {
            ErrorReason::CredentialsInvalid => CallClass::All,
            _ => self.method.class,
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
        self.admission.changed.send_replace(());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut limits = self.admission.limits.lock();
        if *self.has_succeeded.get_mut() {
            for class in [CallClass::All, self.method.class] {
                limits.class(class).pause.succeeded(self.started);
            }
        }
        if is_counted(self.method) {
            limits.class(self.method.class).in_flight -= 1;
            drop(limits);
            self.admission.changed.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests;

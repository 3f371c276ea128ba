//! When a class of calls may go out: pauses that the provider asked for, its rate limits, and how
//! many calls run at once.

use std::{sync::Arc, time::Duration};

use outrigger_api::v1::{self, ErrorReason};
use outrigger_core::error_class::CLASS_PAUSE;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::warn;

use super::{Class, Error, Purpose, metrics::ProviderMetrics};

mod claim;
mod lane;

pub(super) use claim::{Claim, Place};
pub(super) use lane::Rate;
use lane::{Backoff, Bucket, Lane};

/// A `RATE_LIMITED` that does not say for how long.
const RATE_LIMITED: Duration = Duration::from_secs(30);
const CREDENTIALS: (Duration, Duration) = (Duration::from_mins(1), Duration::from_mins(10));

impl Class {
    pub(super) const ALL: [Self; 3] = [Self::Instances, Self::LoadBalancers, Self::Routes];

    /// The value of the metric's label `class`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::LoadBalancers => "load_balancers",
            Self::Routes => "routes",
        }
    }

    /// Calls at once, as long as the provider is not overloaded.
    const fn most_in_flight(self) -> usize {
        match self {
            Self::Instances | Self::Routes => 4,
            Self::LoadBalancers => 16,
        }
    }
}

/// The door that every call but handshake and heartbeat goes through.
#[derive(Debug)]
pub(super) struct Gate {
    lanes: Mutex<Lanes>,
    /// Wakes whoever waits for a change that no clock announces.
    changed: watch::Sender<()>,
    metrics: ProviderMetrics,
}

#[derive(Debug)]
struct Lanes {
    each: [Lane; 3],
    /// Of the limit on all classes together.
    all: Option<Bucket>,
    credentials: Backoff,
    /// How many wait for nothing but that limit, by claim.
    in_line: [usize; Claim::COUNT],
}

/// Leave for one call. Must receive the result of the call.
#[derive(Debug)]
pub(super) struct Permit {
    gate: Arc<Gate>,
    claim: Claim,
    started: Instant,
}

/// A call that has to wait.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) wait: Wait,
    /// To be kept until the next try.
    pub(super) place: Option<Place>,
}

/// Why a call has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing changes before then.
    Until(Instant),
    /// Another call has to end first.
    ForOthers,
}

impl Gate {
    pub(super) fn new(metrics: ProviderMetrics) -> Self {
        Self {
            lanes: Mutex::new(Lanes {
                each: Class::ALL.map(|class| Lane::new(class.most_in_flight())),
                all: None,
                credentials: Backoff::new(CREDENTIALS.0, CREDENTIALS.1),
                in_line: [0; Claim::COUNT],
            }),
            changed: watch::Sender::new(()),
            metrics,
        }
    }

    /// Takes over what a handshake said. A new process may have new credentials and a new way to
    /// its cloud, so its predecessor's troubles are forgotten; the cloud's own limits are not.
    pub(super) fn renew(&self, rates: &[Rate], new_process: bool) {
        let mut lanes = self.lanes.lock();
        let rate_of = |class: Option<Class>| {
            let named = rates.iter().filter(|rate| rate.class == class);
            // Two for one class break the contract; the lower one is safe.
            named
                .min_by(|a, b| a.qps.total_cmp(&b.qps))
                .map(Bucket::new)
        };
        lanes.all = rate_of(None);
        for class in Class::ALL {
            let lane = &mut lanes.each[class as usize];
            lane.bucket = rate_of(Some(class));
            if new_process {
                lane.forgive();
            }
        }
        if new_process {
            lanes.credentials.reset();
        }
        drop(lanes);
        self.changed.send_replace(());
    }

    /// Takes over how many calls of `class` the provider wants at once.
    pub(super) fn allow(&self, class: Class, most: usize) {
        self.lanes.lock().each[class as usize].allow(most);
        self.changed.send_replace(());
    }

    /// Waits until `class` is not paused.
    pub(super) async fn open(&self, class: Class) {
        let mut changed = self.changed.subscribe();
        while let Some(until) = self.paused_until(class) {
            tokio::select! {
                () = sleep_until(until) => {}
                _ = changed.changed() => {}
            }
        }
    }

    /// When the pause of `class` ends, if it is paused now.
    pub(super) fn paused_until(&self, class: Class) -> Option<Instant> {
        let lanes = self.lanes.lock();
        let until = lanes.each[class as usize].paused_until();
        until
            .max(lanes.credentials.until())
            .filter(|until| *until > Instant::now())
    }

    /// Lets a call out, or says what it has to wait for.
    pub(super) fn try_enter(self: &Arc<Self>, claim: Claim) -> Result<Permit, Held> {
        let class = claim.class();
        if let Some(until) = self.paused_until(class) {
            return Err(Wait::Until(until).alone());
        }
        let now = Instant::now();
        let mut lanes = self.lanes.lock();
        let Lanes {
            each, all, in_line, ..
        } = &mut *lanes;
        let lane = &mut each[class as usize];
        if claim.is_counted() && lane.in_flight >= lane.limit() {
            return Err(Wait::ForOthers.alone());
        }
        if let Some(until) = lane.bucket.as_ref().and_then(|bucket| bucket.next(now, 0)) {
            return Err(Wait::Until(until).alone());
        }
        let ahead = in_line.iter().take(claim as usize).sum();
        if let Some(until) = all.as_ref().and_then(|bucket| bucket.next(now, ahead)) {
            in_line[claim as usize] += 1;
            return Err(Held {
                wait: Wait::Until(until),
                place: Some(Place::new(Arc::clone(self), claim)),
            });
        }
        for bucket in [&mut lane.bucket, all].into_iter().flatten() {
            bucket.take(now);
        }
        if claim.is_counted() {
            lane.in_flight += 1;
        }
        Ok(Permit {
            gate: Arc::clone(self),
            claim,
            started: now,
        })
    }

    /// For [`Wait::over`]; subscribe before the try that failed.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Wait {
    /// Waits for more than the limit on all classes, so that no other call waits behind it.
    const fn alone(self) -> Held {
        Held {
            wait: self,
            place: None,
        }
    }

    /// Waits until trying again makes sense.
    pub(super) async fn over(self, changed: &mut watch::Receiver<()>) {
        // The sender lives in the gate, which whoever waits holds; without it nothing changes.
        match self {
            Self::Until(until) => tokio::select! {
                () = sleep_until(until) => {}
                Ok(()) = changed.changed() => {}
            },
            Self::ForOthers => {
                let _ = changed.changed().await;
            }
        }
    }
}

impl Permit {
    /// Takes in that the provider answered.
    pub(super) fn succeeded(&self) {
        let mut lanes = self.gate.lanes.lock();
        lanes.credentials.succeeded(self.started);
        lanes.each[self.claim.class() as usize].succeeded(self.started);
    }

    /// Takes in an error of the call, or of one of its items that speaks for the whole class.
    pub(super) fn failed(&self, error: &Error) {
        let Error::Refused {
            reason,
            retry_after,
            ..
        } = error
        else {
            return;
        };
        let own = self.claim.class();
        let mut lanes = self.gate.lanes.lock();
        let lane = &mut lanes.each[own as usize];
        let asked = retry_after.map(|after| CLASS_PAUSE.clamp(after));
        let (pause, every_class) = match reason {
            ErrorReason::RateLimited => (lane.rate_limited(asked.unwrap_or(RATE_LIMITED)), false),
            ErrorReason::CloudUnavailable => (lane.cloud.failed(self.started, asked), false),
            ErrorReason::CredentialsInvalid => {
                (lanes.credentials.failed(self.started, asked), true)
            }
            ErrorReason::Overloaded => {
                lane.overloaded(self.started);
                (None, false)
            }
            _ => (None, false),
        };
        drop(lanes);
        let Some(pause) = pause else { return };
        if *reason == ErrorReason::RateLimited && retry_after.is_none() {
            warn!(
                class = own.as_str(),
                pause = ?RATE_LIMITED,
                "the provider answers RATE_LIMITED without RetryInfo, which the contract requires: \
                 send when the cloud takes calls again"
            );
        }
        let label = super::error::reason_name(*reason);
        let classes = if every_class {
            Class::ALL.as_slice()
        } else {
            std::slice::from_ref(&own)
        };
        for class in classes {
            self.gate.metrics.paused(*class, label, pause);
        }
        warn!(
            class = if every_class { "all" } else { own.as_str() },
            reason = label,
            pause = ?pause,
            "calls to the provider pause: {error}"
        );
        self.gate.changed.send_replace(());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.claim.is_counted() {
            self.gate.lanes.lock().each[self.claim.class() as usize].in_flight -= 1;
            self.gate.changed.send_replace(());
        }
    }
}

impl Rate {
    /// Reads one limit of a handshake. An invalid limit limits nothing.
    pub(super) fn read(limit: &v1::RateLimit) -> Option<Self> {
        let class = match limit.call_class() {
            v1::CallClass::Unspecified => return None,
            v1::CallClass::All => None,
            v1::CallClass::Instances => Some(Class::Instances),
            v1::CallClass::LoadBalancers => Some(Class::LoadBalancers),
            v1::CallClass::Routes => Some(Class::Routes),
        };
        (limit.qps.is_finite() && limit.qps > 0.0).then(|| Self {
            class,
            qps: limit.qps,
            burst: limit.burst.max(1),
        })
    }
}

#[cfg(test)]
mod tests;

//! When a class of calls may go out: pauses that the provider asked for, its rate limits, and how
//! many calls run at once.

use std::{sync::Arc, time::Duration};

use outrigger_api::v1::{self, ErrorReason};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::warn;

use super::{Class, Error, metrics::ProviderMetrics};

mod lane;

pub(super) use lane::Rate;
use lane::{Backoff, Bucket, Lane};

/// A `RATE_LIMITED` that does not say for how long.
const RATE_LIMITED: Duration = Duration::from_secs(30);
/// No pause is longer, whatever the provider says: an operator must be able to see it end.
const LONGEST: Duration = Duration::from_hours(1);
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
}

/// Leave for one call. Has to be told how the call ended.
#[derive(Debug)]
pub(super) struct Permit {
    gate: Arc<Gate>,
    class: Class,
    started: Instant,
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
    pub(super) fn try_enter(self: &Arc<Self>, class: Class) -> Result<Permit, Wait> {
        if let Some(until) = self.paused_until(class) {
            return Err(Wait::Until(until));
        }
        let now = Instant::now();
        let mut lanes = self.lanes.lock();
        let Lanes { each, all, .. } = &mut *lanes;
        let lane = &mut each[class as usize];
        if lane.in_flight >= lane.limit() {
            return Err(Wait::ForOthers);
        }
        let mut buckets = [lane.bucket.as_mut(), all.as_mut()];
        let full = buckets
            .iter()
            .flatten()
            .filter_map(|bucket| bucket.next(now));
        if let Some(until) = full.max() {
            return Err(Wait::Until(until));
        }
        for bucket in buckets.iter_mut().flatten() {
            bucket.take(now);
        }
        lane.in_flight += 1;
        Ok(Permit {
            gate: Arc::clone(self),
            class,
            started: now,
        })
    }

    /// For [`Wait::over`]; subscribe before the try that failed.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Wait {
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
        lanes.each[self.class as usize].succeeded(self.started);
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
        let mut lanes = self.gate.lanes.lock();
        let lane = &mut lanes.each[self.class as usize];
        let asked = retry_after.map(|after| after.min(LONGEST));
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
        let label = super::error::reason_name(*reason);
        let classes = if every_class {
            Class::ALL.as_slice()
        } else {
            std::slice::from_ref(&self.class)
        };
        for class in classes {
            self.gate.metrics.paused(*class, label, pause);
        }
        warn!(
            class = if every_class { "all" } else { self.class.as_str() },
            reason = label,
            pause = ?pause,
            "calls to the provider pause: {error}"
        );
        self.gate.changed.send_replace(());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.lanes.lock().each[self.class as usize].in_flight -= 1;
        self.gate.changed.send_replace(());
    }
}

impl Rate {
    /// Reads one limit of a handshake. What makes no sense limits nothing.
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

//! Leader election on a `coordination.k8s.io/v1` Lease, decided from facts.
//!
//! ```text
//!  answers of the API server ─► ObservedLease ─┐
//!  acknowledged renewals ────► ReplicaState ───┴─► decide(now, …) ─► Decision ─► (sent by the elector)
//! ```
//!
//! The elector of `outrigger-kube` asks [`decide()`] whenever something was observed or a time has come, sends at most one
//! request at a time, and passes each answer to [`ObservedLease::answered`].
//!
//! Two promises keep two leaders from acting at one instant, whatever the clocks of their machines show (only their rates
//! are compared):
//! - the leader stops acting [`Durations::renew_deadline`] after it *sent* its last acknowledged renewal;
//! - no replica takes a held lease before the record has stood unchanged for the duration that is written in it, which is
//!   longer, after having *received* it, except the lease of its own identity, which a process before it in the same
//!   container may have left.
//!
//! Everything else is convenience. The API server's check of the resourceVersion settles who wins when several try.
//!
//! ```
//! use outrigger_core::lease::{Decision, Durations, ObservedLease, ReplicaState, decide};
//! use std::time::{Duration, Instant};
//!
//! let seconds = Duration::from_secs;
//! let durations = Durations::new(seconds(15), seconds(10), seconds(2))?;
//! let (now, wall) = (Instant::now(), "2026-01-01T00:00:00Z".parse()?);
//! let replica = ReplicaState {
//!     identity: "replica-1",
//!     durations: &durations,
//!     renewed: None,
//!     contends_at: Some(now),
//!     not_before: now,
//!     renew_early: false,
//! };
//!
//! let mut observed = ObservedLease::default();
//! assert_eq!(decide(now, wall, &observed, &replica), Decision::Read);
//! observed.answered(now, now, None);
//! let Decision::Create(record) = decide(now, wall, &observed, &replica) else {
//!     panic!("there is no Lease, so it is made")
//! };
//! assert_eq!(record.holder, "replica-1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api_time;

mod decide;
mod durations;
mod observed;

pub use decide::{Decision, Lost, ReplicaState, decide};
pub use durations::Durations;
pub use observed::ObservedLease;

/// A Lease's `spec` (PROC-21). Fields that the election does not know are carried along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseRecord {
    /// Empty: not held (PROC-23).
    #[serde(rename = "holderIdentity")]
    pub holder: String,
    /// How long others wait after the last change.
    #[serde(
        rename = "leaseDurationSeconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_seconds: Option<i32>,
    /// For people.
    #[serde(rename = "acquireTime", skip_serializing_if = "Option::is_none")]
    pub acquired: Option<Box<str>>,
    /// Never compared with a clock, but its change shows that the holder lives. Text, since Go's times reach further than
    /// [`Timestamp`].
    #[serde(rename = "renewTime", skip_serializing_if = "Option::is_none")]
    pub renewed: Option<Box<str>>,
    /// How often the holder changed.
    #[serde(rename = "leaseTransitions")]
    pub transitions: i32,
    /// All other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl LeaseRecord {
    /// The claim or renewal of `identity` over this record; over the default where there is no Lease (`is_new`).
    fn claimed(
        &self,
        identity: &str,
        durations: &Durations,
        wall: Timestamp,
        is_new: bool,
    ) -> Self {
        let renewed = Some(changed(wall, self.renewed.as_deref()));
        let is_own = self.holder == identity;
        let is_change = !is_own && !is_new;
        let acquired = self.acquired.clone().filter(|_| is_own);
        Self {
            holder: identity.to_owned(),
            duration_seconds: Some(durations.written_seconds()),
            acquired: acquired.or_else(|| renewed.clone()),
            renewed,
            transitions: self.transitions.saturating_add(i32::from(is_change)),
            rest: self.rest.clone(),
        }
    }

    /// True if a program has renewed it within its duration, by the clocks of both: for people, since the election compares no
    /// clocks.
    pub fn seems_held(&self, wall: Timestamp) -> bool {
        let lasts = SignedDuration::from_secs(self.duration_seconds.unwrap_or(0).into());
        let renewed = self.renewed.as_deref().and_then(api_time::parse);
        !self.holder.is_empty() && renewed.is_some_and(|at| wall.duration_since(at) < lasts)
    }

    /// The record that frees a lease immediately, as client-go's `ReleaseOnCancel` writes it.
    #[must_use]
    pub fn released(&self, wall: Timestamp) -> Self {
        let now = Some(changed(wall, self.renewed.as_deref()));
        Self {
            holder: String::new(),
            // Zero is refused by the API server.
            duration_seconds: Some(1),
            acquired: now.clone(),
            renewed: now,
            ..self.clone()
        }
    }
}

/// `wall` as the API server reads it, with exactly six decimals, and never equal to `before`: a record that did not
/// change would look dead to the others, even if it is our clock that stands still.
fn changed(wall: Timestamp, before: Option<&str>) -> Box<str> {
    let micros = |more: i64| {
        let micros = wall.as_microsecond().saturating_add(more);
        let time = Timestamp::from_microsecond(micros).unwrap_or(wall);
        format!("{time:.6}").into_boxed_str()
    };
    let now = micros(0);
    if Some(&*now) == before {
        micros(1)
    } else {
        now
    }
}

#[cfg(test)]
mod tests;

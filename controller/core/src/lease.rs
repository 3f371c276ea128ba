//! Leader election on a `coordination.k8s.io/v1` Lease, decided from facts.
//!
//! ```text
//!  answers, watch events ─► ObservedLease ─┐
//!  acknowledged renewals ─► LeaseTerm ─────┼─► decide(now, …) ─► Decision ─► (sent by the elector)
//!  may this replica lead ─► Candidacy ─────┘
//! ```
//!
//! Two promises keep two leaders from acting at one instant, whatever the clocks of their machines
//! show (only their rates are compared):
//! - the leader stops acting [`Durations::renew_deadline`] after it *sent* its last acknowledged
//!   renewal;
//! - no replica takes a held lease before the record has stood unchanged for the duration that is
//!   written in it, which is longer, after having *received* it, except the lease of a
//!   process that is proven to be dead ([`ReplicaState::predecessors`]).
//!
//! Everything else is convenience. The API server's check of the resourceVersion settles who wins
//! when several try.

use jiff::Timestamp;

mod candidacy;
mod decide;
mod durations;
mod lease_term;
mod observed;
mod unbroken;

pub use candidacy::Candidacy;
pub use decide::{Decision, Lost, ReplicaState, decide};
pub use durations::Durations;
pub use lease_term::LeaseTerm;
pub use observed::ObservedLease;
pub use unbroken::Unbroken;

/// The part of a Lease's `spec` that the election reads and writes (PROC-21). Whatever else the
/// object holds (labels, annotations, fields of later versions) is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// `holderIdentity`; empty: not held (PROC-23).
    pub holder: String,
    /// `leaseDurationSeconds`: how long others wait after the last change.
    pub duration_seconds: Option<i32>,
    /// `acquireTime`, for people.
    pub acquired: Option<Timestamp>,
    /// `renewTime`: never compared with a clock, but its change shows that the holder lives.
    pub renewed: Option<Timestamp>,
    /// `renewTime` as it is written, where `renewed` cannot hold it: its change is a sign of life too.
    pub renewed_text: Option<Box<str>>,
    /// `leaseTransitions`: how often the holder changed.
    pub transitions: i32,
}

impl LeaseRecord {
    /// This replica's claim on a lease that does not exist (`before` absent) or is free to take.
    fn claimed(
        identity: &str,
        durations: &Durations,
        wall: Timestamp,
        before: Option<&Self>,
    ) -> Self {
        let again = before.filter(|record| record.holder == identity);
        let transitions = match (again, before) {
            (Some(record), _) => record.transitions,
            (None, Some(record)) => record.transitions.saturating_add(1),
            (None, None) => 0,
        };
        let renewed = changed(wall, before.and_then(|record| record.renewed));
        Self {
            holder: identity.to_owned(),
            duration_seconds: Some(durations.written_seconds()),
            acquired: again.and_then(|record| record.acquired).or(Some(renewed)),
            renewed: Some(renewed),
            renewed_text: None,
            transitions,
        }
    }

    /// The record that frees a lease immediately, as client-go's `ReleaseOnCancel` writes it.
    #[must_use]
    pub fn released(&self, wall: Timestamp) -> Self {
        let now = changed(wall, self.renewed);
        Self {
            holder: String::new(),
            // Zero is refused by the API server.
            duration_seconds: Some(1),
            acquired: Some(now),
            renewed: Some(now),
            renewed_text: None,
            transitions: self.transitions,
        }
    }
}

/// `wall` as the API keeps it, in microseconds, and never equal to `before`: a record that did not
/// change would look dead to the others, even if it is our clock that stands still.
fn changed(wall: Timestamp, before: Option<Timestamp>) -> Timestamp {
    let micros = wall.as_microsecond();
    let micros = match before.map(Timestamp::as_microsecond) {
        Some(before) if before == micros => micros.saturating_add(1),
        _ => micros,
    };
    Timestamp::from_microsecond(micros).unwrap_or(wall)
}

#[cfg(test)]
mod tests;

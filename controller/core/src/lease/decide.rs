//! The decision of one replica: what it sends to the API server now, or until when it waits.
//!
//! [`decide`] changes nothing and remembers nothing; the caller has the observations and its own state. A leader whose
//! deadline has come gets [`Decision::Lost`] whatever else is observed.

use std::time::Instant;

use jiff::Timestamp;

use super::{Durations, LeaseRecord, ObservedLease};

/// The replica's own state.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaState<'a> {
    /// The holder that it writes; no other process that lives has the same.
    pub identity: &'a str,
    /// The durations of the election.
    pub durations: &'a Durations,
    /// If it leads: when the last renewal was sent that was acknowledged.
    pub renewed: Option<Instant>,
    /// From when on it contends; none: not for now.
    pub contends_at: Option<Instant>,
    /// No request before then: the last one failed.
    pub not_before: Instant,
    /// True if there is something to write beside the record: a renewal comes early for it.
    pub renew_early: bool,
}

/// The next step. At most one request is under way at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// GET the lease: what it is now is not known.
    Read,
    /// POST a lease with this record: there is none.
    Create(LeaseRecord),
    /// PUT this record over the version that was seen: a claim or a renewal.
    Update(LeaseRecord),
    /// Nothing to do until then (or at all), unless something is seen.
    Wait(Option<Instant>),
    /// Stop acting immediately; do not send anything any more.
    Lost(Lost),
}

/// Why a leader leads no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// No renewal was acknowledged in time.
    #[error("no renewal was acknowledged within the renew deadline")]
    RenewDeadline,
    /// Another replica holds the lease.
    #[error("{0} holds the lease")]
    Taken(String),
    /// The holder was cleared, so that any replica may lead by now.
    #[error("the lease's holder was cleared")]
    Cleared,
}

/// The step at `now`; `wall` is the machine's clock, which goes into the record.
pub fn decide(
    now: Instant,
    wall: Timestamp,
    observed: &ObservedLease,
    replica: &ReplicaState<'_>,
) -> Decision {
    let deadline = replica.renewed.map(|at| replica.durations.deadline(at));
    let decision = match replica.renewed {
        Some(renewed) => lead(now, wall, observed, replica, renewed),
        None => contend(now, wall, observed, replica),
    };
    match decision {
        Decision::Lost(_) | Decision::Wait(_) => decision,
        _ if now < replica.not_before => {
            let until = deadline.map_or(replica.not_before, |at| at.min(replica.not_before));
            Decision::Wait(Some(until))
        }
        _ => decision,
    }
}

fn lead(
    now: Instant,
    wall: Timestamp,
    observed: &ObservedLease,
    replica: &ReplicaState<'_>,
    renewed: Instant,
) -> Decision {
    let deadline = replica.durations.deadline(renewed);
    if now >= deadline {
        return Decision::Lost(Lost::RenewDeadline);
    }
    if let Some(last) = observed.last().filter(|last| last.is_there())
        && last.record.holder != replica.identity
    {
        return Decision::Lost(match &*last.record.holder {
            "" => Lost::Cleared,
            holder => Lost::Taken(holder.to_owned()),
        });
    }
    let Some(last) = observed.current() else {
        return Decision::Read;
    };
    let record = || {
        let (identity, durations) = (replica.identity, replica.durations);
        last.record.claimed(identity, durations, wall, false)
    };
    if !last.is_there() {
        // Deleted, and every replica that has seen it waits as if it were still there (see below):
        // we are first, or a replica that never saw it is, which the API server's answer shows.
        return Decision::Create(record());
    }
    let due = renewed + replica.durations.retry_period();
    if now < due && !replica.renew_early {
        return Decision::Wait(Some(due.min(deadline)));
    }
    Decision::Update(record())
}

fn contend(
    now: Instant,
    wall: Timestamp,
    observed: &ObservedLease,
    replica: &ReplicaState<'_>,
) -> Decision {
    let Some(last) = observed.current() else {
        return Decision::Read;
    };
    match replica.contends_at {
        Some(at) if at <= now => {}
        at => return Decision::Wait(at),
    }
    // A claim that was thought lost, a release that was, or the lease of a process before this one.
    let is_own = last.is_there() && last.record.holder == replica.identity;
    if !is_own {
        let free_at = last.free_at(replica.durations.lease_duration());
        if now < free_at {
            return Decision::Wait(Some(free_at));
        }
        // The last answer may be a renewal ago. A free lease is claimed without a read; if it is no longer
        // free, the API server refuses the write.
        if !last.is_free() && last.sent_at < free_at {
            return Decision::Read;
        }
    }
    let (identity, durations) = (replica.identity, replica.durations);
    if last.is_there() {
        Decision::Update(last.record.claimed(identity, durations, wall, false))
    } else {
        Decision::Create(LeaseRecord::default().claimed(identity, durations, wall, true))
    }
}

//! The decision itself.

use std::time::Instant;

use jiff::Timestamp;

use super::{Durations, LeaseRecord, LeaseTerm, ObservedLease, observed::Observation};

/// The replica's own state.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaState<'a> {
    /// The holder that it writes; no other process ever has the same.
    pub identity: &'a str,
    /// Identities of processes that are proven to be dead: a lease of theirs is free.
    pub predecessors: &'a [String],
    /// The durations of the election.
    pub durations: &'a Durations,
    /// The lease term, if it leads.
    pub lease_term: Option<LeaseTerm>,
    /// From when on it contends ([`super::Candidacy`]); none: not for now.
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
    /// GET the lease: the record has not changed for too long: its holder is dead, or watch events
    /// were lost.
    Confirm,
    /// POST a lease with this record: there is none.
    Create(LeaseRecord),
    /// PUT this record over the version that was seen: a claim or a renewal.
    Update(LeaseRecord),
    /// PUT this record over the version that was seen: it is ours, and we cannot use it.
    Release(LeaseRecord),
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
    let decision = match replica.lease_term {
        Some(lease_term) => lead(now, wall, observed, replica, lease_term),
        None => contend(now, wall, observed, replica),
    };
    match decision {
        Decision::Lost(_) | Decision::Wait(_) => decision,
        _ if now < replica.not_before => {
            let deadline = replica
                .lease_term
                .map(|lease_term| lease_term.deadline(replica.durations));
            Decision::Wait(Some(
                deadline.map_or(replica.not_before, |at| at.min(replica.not_before)),
            ))
        }
        _ => decision,
    }
}

fn lead(
    now: Instant,
    wall: Timestamp,
    observed: &ObservedLease,
    replica: &ReplicaState<'_>,
    lease_term: LeaseTerm,
) -> Decision {
    let deadline = lease_term.deadline(replica.durations);
    if now >= deadline {
        return Decision::Lost(Lost::RenewDeadline);
    }
    if let Some(lost) = observed
        .last()
        .and_then(|last| lost(last, replica.identity))
    {
        return Decision::Lost(lost);
    }
    let Some(last) = observed.current() else {
        return Decision::Read;
    };
    let record = || {
        LeaseRecord::claimed(
            replica.identity,
            replica.durations,
            wall,
            Some(&last.record),
        )
    };
    if !last.is_there() {
        // Deleted, and every replica that has seen it waits as if it were still there (see below):
        // we are first, or a replica that never saw it is, which the API server's answer shows.
        return Decision::Create(record());
    }
    let due = lease_term.renewed() + replica.durations.retry_period();
    if now < due && !replica.renew_early {
        return Decision::Wait(Some(due.min(deadline)));
    }
    Decision::Update(record())
}

/// True if the record shows that another replica may lead by now.
fn lost(last: &Observation, identity: &str) -> Option<Lost> {
    if !last.is_there() || last.record.holder == identity {
        None
    } else if last.record.holder.is_empty() {
        Some(Lost::Cleared)
    } else {
        Some(Lost::Taken(last.record.holder.clone()))
    }
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
    let ours = last.is_there() && last.record.holder == replica.identity;
    match replica.contends_at {
        Some(at) if at <= now => {}
        // A claim that was thought lost, or a release that was.
        _ if ours => return Decision::Release(last.record.released(wall)),
        at => return Decision::Wait(at),
    }
    let is_left = last.is_there() && replica.predecessors.contains(&last.record.holder);
    if !ours && !is_left {
        let free_at = last.free_at(replica.durations.lease_duration());
        if now < free_at {
            return Decision::Wait(Some(free_at));
        }
        // A watch that broke unnoticed shows a live holder as dead: look before taking. A free
        // lease is claimed without a read; if it is no longer free, the API server refuses the
        // write.
        if !last.is_free() && last.sent_at.is_none_or(|sent_at| sent_at < free_at) {
            return Decision::Confirm;
        }
    }
    let claim = |before| LeaseRecord::claimed(replica.identity, replica.durations, wall, before);
    if last.is_there() {
        Decision::Update(claim(Some(&last.record)))
    } else {
        Decision::Create(claim(None))
    }
}

//! Observations of the Lease, and since when each has stood unchanged by the replica's own clock.
//!
//! The times in the record are never compared with a clock: only that they change shows that the holder lives.

use std::time::{Duration, Instant};

use super::LeaseRecord;

/// The last record observed and how long it has not changed.
///
/// Only answers of the API server count, which are the latest state since there is one request at a time. A watch event
/// has the lease read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedLease {
    observation: Option<Observation>,
    /// It is open what the record is now.
    is_stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// There was no object when we first looked.
    Never,
    There,
    /// There was one.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observation {
    /// The record; of an object that is gone: as it last was.
    pub(super) record: LeaseRecord,
    presence: Presence,
    /// The record has not changed since, as far as was seen.
    since: Instant,
    /// When the last request was sent whose answer showed it.
    pub(super) sent_at: Instant,
}

impl Observation {
    /// True if the object exists.
    pub(super) fn is_there(&self) -> bool {
        self.presence == Presence::There
    }

    /// True if the object shows that the lease is free, so that no holder has to be waited for.
    pub(super) fn is_free(&self) -> bool {
        self.presence != Presence::Gone && self.record.holder.is_empty()
    }

    /// The instant from which on any replica may claim it, unless it changes. `own` is our own
    /// lease duration.
    pub(super) fn free_at(&self, own: Duration) -> Instant {
        if self.is_free() {
            return self.since;
        }
        let written = self.record.duration_seconds.map(u64::try_from);
        let written = match written {
            Some(Ok(seconds)) => Duration::from_secs(seconds),
            Some(Err(_)) | None => own,
        };
        match self.presence {
            // Deleted under a holder that may not know yet, and whose last record we may not have
            // seen.
            Presence::Gone => self.since + written.max(own),
            Presence::Never | Presence::There => self.since + written,
        }
    }
}

impl ObservedLease {
    /// An answer of the API server to a request that was sent at `sent`, received at `now`: the
    /// record, or none if there is no such object.
    pub fn answered(&mut self, sent: Instant, now: Instant, record: Option<LeaseRecord>) {
        self.is_stale = false;
        let presence = match (&record, &self.observation) {
            (Some(_), _) => Presence::There,
            (None, None) => Presence::Never,
            (None, Some(before)) if before.presence == Presence::Never => Presence::Never,
            (None, Some(_)) => Presence::Gone,
        };
        let before = self.observation.take();
        let last = before.as_ref().map(|before| &before.record);
        let record = record.or_else(|| last.cloned()).unwrap_or_default();
        // An annotation changes the version alone.
        let since = match before {
            Some(before) if before.presence == presence && before.record == record => before.since,
            _ => now,
        };
        self.observation = Some(Observation {
            record,
            presence,
            since,
            sent_at: sent,
        });
    }

    /// A watch event showed another version, or a request failed in a way that leaves it open what the record is now.
    pub fn invalidate(&mut self) {
        self.is_stale = true;
    }

    /// True if the record has to be asked for.
    pub fn must_read(&self) -> bool {
        self.current().is_none()
    }

    /// The record as last observed; none: there is no lease, or it was not observed yet.
    pub fn record(&self) -> Option<&LeaseRecord> {
        let there = self.last().filter(|last| last.is_there())?;
        Some(&there.record)
    }

    /// The holder as last observed; none: free, or not observed yet.
    pub fn holder(&self) -> Option<&str> {
        let holder = &*self.record()?.holder;
        Some(holder).filter(|holder| !holder.is_empty())
    }

    /// The last observation, unless the lease has to be read again.
    pub(super) fn current(&self) -> Option<&Observation> {
        self.observation.as_ref().filter(|_| !self.is_stale)
    }

    /// The last observation, certain or not.
    pub(super) fn last(&self) -> Option<&Observation> {
        self.observation.as_ref()
    }
}

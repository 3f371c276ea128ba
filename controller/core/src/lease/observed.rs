//! Observations of the lease, and since when by the replica's own clock (PROC-23).

use std::time::{Duration, Instant};

use super::LeaseRecord;

/// The last record observed and how long it has not changed.
///
/// Answers to reads and writes are the latest state, unless a watch event has overtaken them;
/// watch events come late and count only if they are newer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedLease {
    observation: Option<Observation>,
    /// A request since then left it open what the record is now.
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
    version: String,
    /// The record has not changed since, as far as was seen.
    since: Instant,
    /// When the last request was sent whose answer showed it.
    pub(super) sent_at: Option<Instant>,
    /// When the last watch event came that was news.
    watched_at: Option<Instant>,
}

impl Observation {
    /// The version as a number: the API server counts up. Before the first object it is 0.
    fn number(&self) -> Result<u64, std::num::ParseIntError> {
        if self.version.is_empty() {
            Ok(0)
        } else {
            self.version.parse()
        }
    }

    /// True if an answer to what was asked at `sent` is older than a watch event since.
    fn overtakes(&self, sent: Instant, answer: Option<&str>) -> bool {
        let watched_since = self.watched_at.is_some_and(|watched_at| watched_at >= sent);
        watched_since
            && match answer.map(str::parse::<u64>) {
                Some(Ok(version)) => self.number().is_ok_and(|held| version < held),
                Some(Err(_)) => false,
                None => self.is_there(),
            }
    }

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
    /// record and the object's resourceVersion, or none if there is no such object. Returns whether
    /// the answer is the latest state: a release that the watch delivered before the answer is not
    /// delivered again.
    pub fn answered(
        &mut self,
        sent: Instant,
        now: Instant,
        answer: Option<(LeaseRecord, &str)>,
    ) -> bool {
        self.is_stale = false;
        let version = answer.as_ref().map(|(_, version)| *version);
        if self
            .observation
            .as_ref()
            .is_some_and(|observation| observation.overtakes(sent, version))
        {
            return false;
        }
        self.store(now, answer);
        if let Some(observation) = &mut self.observation {
            observation.sent_at = Some(sent);
        }
        true
    }

    /// A watch event: the record and version, or that the object was deleted with `version`.
    /// Returns whether it was news; what is not comparable is asked for.
    pub fn watched(&mut self, now: Instant, record: Option<LeaseRecord>, version: &str) -> bool {
        if let Some(observation) = &self.observation {
            match (version.parse::<u64>(), observation.number()) {
                (Ok(new), Ok(held)) if new > held => {}
                (Ok(_), Ok(_)) => return false,
                _ => {
                    self.is_stale |= version != observation.version;
                    return false;
                }
            }
        }
        let is_deletion = record.is_none();
        self.store(now, record.map(|record| (record, version)));
        if let Some(observation) = &mut self.observation {
            if is_deletion {
                // Also where it is the first that is observed: another replica may hold it.
                observation.presence = Presence::Gone;
            }
            version.clone_into(&mut observation.version);
            observation.watched_at = Some(now);
        }
        true
    }

    /// A request failed in a way that leaves it open what the record is now.
    pub fn invalidate(&mut self) {
        self.is_stale = true;
    }

    /// True if the record has to be asked for.
    pub fn must_read(&self) -> bool {
        self.current().is_none()
    }

    /// The holder as last observed; none: free, or not observed yet.
    pub fn holder(&self) -> Option<&str> {
        let observation = self
            .observation
            .as_ref()
            .filter(|observation| observation.is_there())?;
        Some(&*observation.record.holder).filter(|holder| !holder.is_empty())
    }

    /// The last observation, unless the lease has to be read again.
    pub(super) fn current(&self) -> Option<&Observation> {
        self.observation.as_ref().filter(|_| !self.is_stale)
    }

    /// The last observation, certain or not.
    pub(super) fn last(&self) -> Option<&Observation> {
        self.observation.as_ref()
    }

    fn store(&mut self, now: Instant, answer: Option<(LeaseRecord, &str)>) {
        match (&mut self.observation, answer) {
            (Some(observation), Some((record, version))) => {
                // An annotation changes the version alone.
                if !observation.is_there() || observation.record != record {
                    observation.since = now;
                }
                observation.record = record;
                observation.presence = Presence::There;
                version.clone_into(&mut observation.version);
            }
            (Some(observation), None) => {
                if observation.is_there() {
                    observation.presence = Presence::Gone;
                    observation.since = now;
                }
            }
            (None, answer) => {
                let presence = match answer {
                    Some(_) => Presence::There,
                    None => Presence::Never,
                };
                let (record, version) = answer.unwrap_or_default();
                self.observation = Some(Observation {
                    record,
                    presence,
                    version: version.to_owned(),
                    since: now,
                    sent_at: None,
                    watched_at: None,
                });
            }
        }
    }
}

//! A leader's time.

use std::time::Instant;

use super::{Durations, LeaseRecord};

/// A lease term: from an acknowledged claim until the renew deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerm {
    renewed: Instant,
    epoch: i32,
}

impl LeaseTerm {
    /// Begins with `record`, a claim that was sent at `sent` and whose acknowledgement was read at
    /// `now`. Returns `None` if that took too long to act on.
    pub fn begin(
        sent: Instant,
        now: Instant,
        record: &LeaseRecord,
        durations: &Durations,
    ) -> Option<Self> {
        (now < durations.deadline(sent)).then_some(Self {
            renewed: sent,
            epoch: record.transitions,
        })
    }

    /// Goes on with a renewal that was sent at `sent`, if its acknowledgement was read (`now`)
    /// while the term lasted. An expired term is not extended: its token may have been cancelled.
    pub fn extend(&mut self, sent: Instant, now: Instant, durations: &Durations) -> bool {
        let lasts = now < self.deadline(durations);
        if lasts {
            self.renewed = self.renewed.max(sent);
        }
        lasts
    }

    /// When the last acknowledged renewal was sent.
    pub const fn renewed(&self) -> Instant {
        self.renewed
    }

    /// `leaseTransitions` of the record.
    pub const fn epoch(&self) -> i32 {
        self.epoch
    }

    /// From then on the leader must not act.
    pub fn deadline(&self, durations: &Durations) -> Instant {
        durations.deadline(self.renewed)
    }
}

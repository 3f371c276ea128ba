//! The lease term as the elector holds it.

use std::time::{Duration, Instant};

use outrigger_core::lease::{LeaseRecord, LeaseTerm, Terms};

use super::Leading;

/// A lease term and its public view. Dropping it ends it, so that all work stops if the elector is
/// aborted.
#[derive(Debug)]
pub(super) struct LeadingTerm {
    pub(super) lease_term: LeaseTerm,
    pub(super) leading: Leading,
}

impl LeadingTerm {
    /// `suspended`: how long the machine had been suspended when the claim was sent.
    pub(super) fn begin(
        sent: Instant,
        now: Instant,
        record: &LeaseRecord,
        terms: &Terms,
        suspended: Duration,
    ) -> Option<Self> {
        let lease_term = LeaseTerm::begin(sent, now, record, terms)?;
        let deadline = lease_term.deadline(terms).into();
        let leading = Leading::until(now.into(), deadline, suspended, lease_term.epoch());
        Some(Self {
            lease_term,
            leading,
        })
    }

    /// Extends the term by an acknowledged renewal; false: it came too late.
    pub(super) fn extend(
        &mut self,
        sent: Instant,
        now: Instant,
        terms: &Terms,
        suspended: Duration,
    ) -> bool {
        let lasts =
            !self.leading.token().is_cancelled() && self.lease_term.extend(sent, now, terms);
        if lasts {
            self.leading
                .extend(self.lease_term.deadline(terms).into(), suspended);
        }
        lasts
    }
}

impl Drop for LeadingTerm {
    fn drop(&mut self) {
        self.leading.end();
    }
}

//! The elector's own hold on its time in office.

use std::time::{Duration, Instant};

use outrigger_core::lease::{Record, Tenure, Terms};

use super::Leading;

/// A tenure and what everybody else sees of it. Dropping it ends it, so that nobody goes on
/// acting if the elector is aborted.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) tenure: Tenure,
    pub(super) leading: Leading,
}

impl Office {
    /// `suspended`: how long the machine had been suspended when the claim was sent.
    pub(super) fn begin(
        sent: Instant,
        now: Instant,
        record: &Record,
        terms: &Terms,
        suspended: Duration,
    ) -> Option<Self> {
        let tenure = Tenure::begin(sent, now, record, terms)?;
        let deadline = tenure.deadline(terms).into();
        let leading = Leading::until(now.into(), deadline, suspended, tenure.epoch());
        Some(Self { tenure, leading })
    }

    /// Takes in an acknowledged renewal; false: it came too late.
    pub(super) fn extend(
        &mut self,
        sent: Instant,
        now: Instant,
        terms: &Terms,
        suspended: Duration,
    ) -> bool {
        let lasts = !self.leading.token().is_cancelled() && self.tenure.extend(sent, now, terms);
        if lasts {
            self.leading
                .extend(self.tenure.deadline(terms).into(), suspended);
        }
        lasts
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.leading.end();
    }
}

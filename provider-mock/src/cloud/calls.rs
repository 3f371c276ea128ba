//! Faults, counters and the journal of calls.

use super::Cloud;
use super::counters::{Counters, Counts};
use crate::faults::{Fault, Faults};
use crate::journal::{Event, Journal};

impl Cloud {
    /// Sets a fault, to happen after those that are set.
    pub fn inject(&self, fault: Fault) {
        self.0.faults.add(fault);
    }

    /// Removes all faults and ends each call that hangs. Returns how many faults there were.
    pub fn clear_faults(&self) -> usize {
        self.0.faults.clear()
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Counts since the start or the last reset.
    pub fn counters(&self) -> Counts {
        self.0.counters.read()
    }

    /// Reads the counts and starts again at zero.
    pub fn take_counters(&self) -> Counts {
        self.0.counters.take()
    }

    pub(crate) fn count(&self) -> &Counters {
        &self.0.counters
    }

    /// Records calls and changes from now on. Only the first journal is kept.
    pub fn keep_journal(&self, journal: Journal) {
        let _ = self.0.journal.set(journal);
    }

    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.0.journal.get()
    }

    pub(super) fn record(&self, event: impl FnOnce() -> Event) {
        if let Some(journal) = self.journal() {
            journal.record(event());
        }
    }
}

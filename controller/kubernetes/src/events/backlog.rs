//! Queue of event writes: at most one in flight per event; repeats that wait are merged into one write.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use outrigger_core::correlator::Record;

/// A write that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventWrite {
    pub(super) record: Record,
    /// True if the API server cannot have the event yet.
    pub(super) create: bool,
}

#[derive(Debug, Default)]
pub(super) struct Backlog {
    order: VecDeque<Arc<str>>,
    slots: HashMap<Arc<str>, Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    waiting: Option<EventWrite>,
    in_flight: bool,
}

impl Backlog {
    /// Number of events whose write waits or is in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Queues a record. Returns true if the record replaced one that was still waiting.
    pub(super) fn push(&mut self, record: Record) -> bool {
        let name = Arc::clone(&record.name);
        let slot = self.slots.entry(Arc::clone(&name)).or_default();
        if let Some(waiting) = &mut slot.waiting {
            waiting.record = record;
            return true;
        }
        let create = record.count == 1;
        slot.waiting = Some(EventWrite { record, create });
        if !slot.in_flight {
            self.order.push_back(name);
        }
        false
    }

    /// The next write, in flight until [`done`](Self::done).
    pub(super) fn next(&mut self) -> Option<EventWrite> {
        let name = self.order.pop_front()?;
        let slot = self.slots.get_mut(&name)?;
        slot.in_flight = true;
        slot.waiting.take()
    }

    /// Ends the write of this event that was in flight.
    pub(super) fn done(&mut self, name: &Arc<str>) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.in_flight = false;
        if slot.waiting.is_some() {
            self.order.push_back(Arc::clone(name));
        } else {
            self.slots.remove(name);
        }
    }
}

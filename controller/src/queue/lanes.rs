//! The keys that wait for a worker, in the order in which they go.

use std::collections::BTreeMap;

use super::{Lane, Priority};

/// While both priorities wait, this many fresh keys go for each bulk one.
const FRESH_PER_BULK: u32 = 7;

/// Place of a key among those of its priority.
pub(super) type Ticket = u64;

#[derive(Debug)]
pub(super) struct Lanes<K> {
    /// By priority.
    waiting: [BTreeMap<Ticket, K>; 4],
    /// Fresh keys that went in a row while bulk ones waited.
    fresh_in_row: u32,
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self {
            waiting: std::array::from_fn(|_| BTreeMap::new()),
            fresh_in_row: 0,
        }
    }
}

impl<K> Lanes<K> {
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }

    pub(super) fn len_of(&self, priority: Priority) -> usize {
        self.waiting[priority as usize].len()
    }

    pub(super) fn insert(&mut self, priority: Priority, ticket: Ticket, key: K) {
        self.waiting[priority as usize].insert(ticket, key);
    }

    pub(super) fn remove(&mut self, priority: Priority, ticket: Ticket) {
        self.waiting[priority as usize].remove(&ticket);
    }

    /// Takes out the key of a lane that goes next.
    pub(super) fn pop(&mut self, lane: Lane) -> Option<(Priority, K)> {
        let priority = match lane {
            Lane::Normal => self.next_normal(),
            Lane::Batch => Priority::Batch,
            Lane::Background => Priority::Background,
        };
        let (_, key) = self.waiting[priority as usize].pop_first()?;
        Some((priority, key))
    }

    fn next_normal(&mut self) -> Priority {
        let bulk_waits = self.len_of(Priority::Bulk) > 0;
        let is_turn_of_fresh = !bulk_waits || self.fresh_in_row < FRESH_PER_BULK;
        if is_turn_of_fresh && self.len_of(Priority::Fresh) > 0 {
            self.fresh_in_row += u32::from(bulk_waits);
            return Priority::Fresh;
        }
        if bulk_waits {
            self.fresh_in_row = 0;
        }
        Priority::Bulk
    }
}

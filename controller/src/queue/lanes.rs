//! The keys that wait for a worker, in the order in which they go.

use std::collections::BTreeMap;

use super::{Lane, Priority};

/// While both priorities wait, this many fresh keys go for each bulk one.
const FRESH_PER_BULK: u32 = 7;

/// Place of a key among those of its priority.
pub(super) type Ticket = u64;

#[derive(Debug)]
pub(super) struct Lanes<K> {
    fresh: BTreeMap<Ticket, K>,
    bulk: BTreeMap<Ticket, K>,
    background: BTreeMap<Ticket, K>,
    /// Fresh keys that went in a row while bulk ones waited.
    fresh_in_row: u32,
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self {
            fresh: BTreeMap::new(),
            bulk: BTreeMap::new(),
            background: BTreeMap::new(),
            fresh_in_row: 0,
        }
    }
}

impl<K> Lanes<K> {
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.bulk.len() + self.background.len()
    }

    pub(super) fn len_of(&self, priority: Priority) -> usize {
        match priority {
            Priority::Fresh => self.fresh.len(),
            Priority::Bulk => self.bulk.len(),
            Priority::Background => self.background.len(),
        }
    }

    pub(super) fn insert(&mut self, priority: Priority, ticket: Ticket, key: K) {
        self.lane(priority).insert(ticket, key);
    }

    pub(super) fn remove(&mut self, priority: Priority, ticket: Ticket) {
        self.lane(priority).remove(&ticket);
    }

    /// Takes out the key of a lane that goes next.
    pub(super) fn pop(&mut self, lane: Lane) -> Option<(Priority, K)> {
        match lane {
            Lane::Normal => self.pop_normal(),
            Lane::Background => {
                let (_, key) = self.background.pop_first()?;
                Some((Priority::Background, key))
            }
        }
    }

    fn pop_normal(&mut self) -> Option<(Priority, K)> {
        let bulk_waits = !self.bulk.is_empty();
        if (!bulk_waits || self.fresh_in_row < FRESH_PER_BULK)
            && let Some((_, key)) = self.fresh.pop_first()
        {
            self.fresh_in_row += u32::from(bulk_waits);
            return Some((Priority::Fresh, key));
        }
        let (_, key) = self.bulk.pop_first()?;
        self.fresh_in_row = 0;
        Some((Priority::Bulk, key))
    }

    fn lane(&mut self, priority: Priority) -> &mut BTreeMap<Ticket, K> {
        match priority {
            Priority::Fresh => &mut self.fresh,
            Priority::Bulk => &mut self.bulk,
            Priority::Background => &mut self.background,
        }
    }
}

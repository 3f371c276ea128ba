//! The keys that wait for a worker, in the order in which they go: by priority, and within one by their tickets.
//!
//! [`super::state`] inserts a key with the ticket of its first add and asks which priority has the next turn. While less
//! urgent keys wait, a more urgent priority has seven turns in a row, then a less urgent one.

use std::collections::BTreeMap;

use super::Priority;

/// While less urgent keys wait, this many turns in a row are of a more urgent priority.
const TURNS_IN_ROW: u32 = 7;

/// Place of a key among those of its priority.
pub(super) type Ticket = u64;

#[derive(Debug)]
pub(super) struct Lanes<K> {
    /// By priority.
    waiting: [BTreeMap<Ticket, K>; Priority::ALL.len()],
    /// Turns of each priority in a row while less urgent keys waited.
    in_row: [u32; Priority::ALL.len()],
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self {
            waiting: std::array::from_fn(|_| BTreeMap::new()),
            in_row: [0; Priority::ALL.len()],
        }
    }
}

impl<K> Lanes<K> {
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }

    fn len_of(&self, priority: Priority) -> usize {
        self.waiting[priority as usize].len()
    }

    pub(super) fn insert(&mut self, priority: Priority, ticket: Ticket, key: K) {
        self.waiting[priority as usize].insert(ticket, key);
    }

    pub(super) fn remove(&mut self, priority: Priority, ticket: Ticket) {
        self.waiting[priority as usize].remove(&ticket);
    }

    /// Which priority has the next turn: the most urgent one whose keys wait, and every eighth time a less urgent one. Bulk
    /// keys are left out unless `with_bulk`.
    pub(super) fn next(&self, with_bulk: bool) -> Option<Priority> {
        let mut waiting = Priority::ALL
            .into_iter()
            .filter(|priority| with_bulk || *priority != Priority::Bulk)
            .filter(|priority| self.len_of(*priority) > 0)
            .peekable();
        loop {
            let priority = waiting.next()?;
            let is_last = waiting.peek().is_none();
            if is_last || self.in_row[priority as usize] < TURNS_IN_ROW {
                return Some(priority);
            }
        }
    }

    /// Takes out the next key of a priority.
    pub(super) fn take(&mut self, priority: Priority) -> Option<K> {
        let all = Priority::ALL.into_iter();
        let less_urgent_wait = all
            .clone()
            .any(|other| other > priority && self.len_of(other) > 0);
        for more_urgent in all.filter(|other| *other < priority) {
            self.in_row[more_urgent as usize] = 0;
        }
        self.in_row[priority as usize] += u32::from(less_urgent_wait);
        let waiting = &mut self.waiting[priority as usize];
        waiting.pop_first().map(|(_, key)| key)
    }
}

//! A map that forgets what was not used for the longest time.

use std::collections::{BTreeMap, HashMap};

#[derive(Debug)]
pub(super) struct Lru<V> {
    capacity: usize,
    entries: HashMap<u64, (u64, V)>,
    /// Keys by the turn in which they were last used.
    turns: BTreeMap<u64, u64>,
    turn: u64,
}

impl<V> Lru<V> {
    /// `capacity` is at least 1.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: HashMap::new(),
            turns: BTreeMap::new(),
            turn: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.turns.len());
        self.entries.len()
    }

    /// The value of `key`, which is now the one that was used last.
    pub(super) fn get_or_insert_with(&mut self, key: u64, new: impl FnOnce() -> V) -> &mut V {
        self.turn += 1;
        if let Some((turn, _)) = self.entries.get(&key) {
            self.turns.remove(turn);
        } else if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.turns.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.turns.insert(self.turn, key);
        let entry = self.entries.entry(key).or_insert_with(|| (0, new()));
        entry.0 = self.turn;
        &mut entry.1
    }
}

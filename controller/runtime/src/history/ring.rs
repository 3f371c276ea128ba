//! The memory of the history: a few decisions about each object, the oldest of all dropped first.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::NotedDecision;

/// Decisions about one object.
const OF_OBJECT: usize = 16;

/// Memory of a decision beside its text: the entry, its place in the order, and what an allocator adds.
const OVERHEAD: usize = 320;

/// The decisions about all objects, within a number of bytes.
#[derive(Debug)]
pub(super) struct Ring {
    limit: usize,
    bytes: usize,
    next: u64,
    /// By object, each with its number.
    objects: HashMap<Arc<str>, Vec<(u64, NotedDecision)>>,
    /// The object of each decision, from the oldest.
    order: BTreeMap<u64, Arc<str>>,
}

impl Ring {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            next: 0,
            objects: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a decision about `object`. It counts for an earlier one of the same source, kind and rule too.
    pub(super) fn add(&mut self, object: String, mut decision: NotedDecision) {
        let object: Arc<str> = object.into();
        let entries = self.objects.get(&object).map_or(&[][..], Vec::as_slice);
        let is_alike = |other: &NotedDecision| {
            (&other.source, &other.kind, &other.rule)
                == (&decision.source, &decision.kind, &decision.rule)
        };
        let alike = entries.iter().find(|(_, other)| is_alike(other));
        if let Some((_, earlier)) = alike {
            decision.count += earlier.count;
            decision.first = earlier.first;
        }
        let oldest = entries.first().filter(|_| entries.len() >= OF_OBJECT);
        let replaced = alike.or(oldest).map(|(number, _)| *number);
        if let Some(number) = replaced {
            self.forget(number);
        }
        self.bytes += size(&decision);
        self.order.insert(self.next, Arc::clone(&object));
        let entries = self.objects.entry(object).or_default();
        entries.push((self.next, decision));
        self.next += 1;
        while self.bytes > self.limit
            && let Some((oldest, _)) = self.order.first_key_value()
        {
            self.forget(*oldest);
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(object) = self.order.remove(&number) else {
            return;
        };
        let Some(entries) = self.objects.get_mut(&object) else {
            return;
        };
        if let Some(at) = entries.iter().position(|(of, _)| *of == number) {
            let (_, decision) = entries.remove(at);
            self.bytes -= size(&decision);
        }
        if entries.is_empty() {
            self.objects.remove(&object);
        }
    }

    /// The decisions about `object`, the newest last.
    pub(super) fn explain(&self, object: &str) -> Vec<NotedDecision> {
        let entries = self.objects.get(object).into_iter().flatten();
        entries.map(|(_, decision)| decision.clone()).collect()
    }
}

fn size(decision: &NotedDecision) -> usize {
    decision.text.len() + OVERHEAD
}

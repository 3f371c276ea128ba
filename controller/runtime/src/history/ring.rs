//! The memory of the history: a few lines of each object, the oldest of all dropped first.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    sync::Arc,
};

use jiff::Timestamp;

/// Lines of one object.
const OF_OBJECT: usize = 16;

/// Memory of a line beside its text: the entry, its place in the order, and what an allocator adds.
const OVERHEAD: usize = 256;

/// Lines that are alike: the newest of them counts for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineKey {
    pub(super) source: &'static str,
    pub(super) kind: &'static str,
    pub(super) rule: &'static str,
}

#[derive(Debug)]
struct Entry {
    key: LineKey,
    number: u64,
    count: u64,
    first: Timestamp,
    line: Arc<str>,
}

/// The lines of all objects, within a number of bytes.
#[derive(Debug)]
pub(super) struct Ring {
    limit: usize,
    bytes: usize,
    next: u64,
    objects: HashMap<Arc<str>, Vec<Entry>>,
    /// The object of each line, from the oldest.
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

    /// Adds a line about `object`, in the place of an earlier one of the same key.
    pub(super) fn add(&mut self, object: String, key: LineKey, time: Timestamp, line: Arc<str>) {
        let number = self.next;
        self.next += 1;
        let object: Arc<str> = object.into();
        let entries = self.objects.entry(Arc::clone(&object)).or_default();
        let alike = entries.iter().position(|entry| entry.key == key);
        let replaced = alike.or_else(|| (entries.len() >= OF_OBJECT).then_some(0));
        let earlier = replaced.map(|at| entries.remove(at));
        if let Some(earlier) = &earlier {
            self.order.remove(&earlier.number);
            self.bytes -= size(&earlier.line);
        }
        let (count, first) = match earlier.filter(|earlier| earlier.key == key) {
            Some(earlier) => (earlier.count.saturating_add(1), earlier.first),
            None => (1, time),
        };
        self.bytes += size(&line);
        entries.push(Entry {
            key,
            number,
            count,
            first,
            line,
        });
        self.order.insert(number, object);
        while self.bytes > self.limit
            && let Some((number, object)) = self.order.pop_first()
        {
            self.forget(number, &object);
        }
    }

    fn forget(&mut self, number: u64, object: &str) {
        let Some(entries) = self.objects.get_mut(object) else {
            return;
        };
        if let Some(at) = entries.iter().position(|entry| entry.number == number) {
            self.bytes -= size(&entries.remove(at).line);
        }
        if entries.is_empty() {
            self.objects.remove(object);
        }
    }

    /// The lines about `object` as a JSON array.
    pub(super) fn explain(&self, object: &str) -> Option<String> {
        let entries = self.objects.get(object)?;
        let mut text = String::from("[");
        for (at, entry) in entries.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            let (count, first, line) = (entry.count, entry.first, &entry.line);
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "{separator}{{\"count\":{count},\"first\":\"{first}\",\"last\":{line}}}"
            );
        }
        text.push(']');
        Some(text)
    }
}

fn size(line: &str) -> usize {
    line.len() + OVERHEAD
}

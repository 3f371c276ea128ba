//! Counts equal events, and limits those of one source about one object (E-2, E-4).

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;

use super::Event;

/// So many events, and so many sources with their objects, are remembered at least: client-go's number.
const REMEMBERED: usize = 4096;

/// Events that one source may write about one object in one go, and how long it takes to earn
/// another one.
const BURST: f64 = 25.0;
const SECONDS_PER_EVENT: f64 = 300.0;

/// A name longer than this is no DNS subdomain, and the API server refuses it.
const MAX_NAME: usize = 253;

/// The state of an Event in the API server after the next write: it is created if `count` is 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    /// `metadata.name`, the same for all repeats.
    pub(super) name: Arc<str>,
    /// When the first one happened.
    pub(super) first: Timestamp,
    /// How many there were, including those that were not written.
    pub(super) count: u32,
}

/// Remembers the last events and how many their sources may still write.
#[derive(Debug, Default)]
pub(super) struct EventMemory {
    /// By source, object, type, reason and message.
    records: Recent<Record>,
    /// By source and object.
    buckets: Recent<TokenBucket>,
    last_stamp: i128,
}

/// The same as client-go's spam filter; full at first.
#[derive(Debug, Default)]
struct TokenBucket {
    missing: f64,
    last: Timestamp,
}

impl EventMemory {
    /// The record to write for this event; none if its source exceeds its rate (E-4). It still
    /// counts: the next one that is written has the whole count.
    pub(super) fn observe(&mut self, event: &Event) -> Option<Record> {
        let object = &event.object;
        let source = digest(&(
            event.component,
            object.kind,
            &object.namespace,
            &object.name,
            &object.uid,
        ));
        let content = &event.content;
        let identity = digest(&(source, content.kind, &content.reason, &content.message));
        let record = self.records.get_or_default(identity);
        if record.count == 0 {
            // Two events of one moment, or a clock that was set back, must not share a name.
            self.last_stamp = event.at.as_nanosecond().max(self.last_stamp + 1);
            record.name = event_name(&object.name, self.last_stamp);
            record.first = event.at;
        }
        record.count = record.count.saturating_add(1);
        let bucket = self.buckets.get_or_default(source);
        bucket.take(event.at).then(|| record.clone())
    }
}

impl TokenBucket {
    fn take(&mut self, at: Timestamp) -> bool {
        // Zero when the clock went back.
        let passed = at.duration_since(self.last).as_secs_f64().max(0.0);
        self.missing = (self.missing - passed / SECONDS_PER_EVENT).max(0.0);
        self.last = self.last.max(at);
        let enough = self.missing <= BURST - 1.0;
        if enough {
            self.missing += 1.0;
        }
        enough
    }
}

/// A map in two generations: an entry is forgotten if it was not used while [`REMEMBERED`] others were.
#[derive(Debug, Default)]
struct Recent<V> {
    young: HashMap<u64, V>,
    old: HashMap<u64, V>,
}

impl<V: Default> Recent<V> {
    fn get_or_default(&mut self, key: u64) -> &mut V {
        let held = self.old.remove(&key);
        if self.young.len() >= REMEMBERED && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        let value = || held.unwrap_or_default();
        self.young.entry(key).or_insert_with(value)
    }
}

/// `<object>.<hex nanoseconds>` (E-1), with a long object's name cut.
fn event_name(object: &str, stamp: i128) -> Arc<str> {
    let stamp = format!(".{stamp:x}");
    let kept = object.floor_char_boundary(MAX_NAME.saturating_sub(stamp.len()));
    let kept = object.get(..kept).unwrap_or_default();
    // A label of a DNS name may not end in one of these.
    format!("{}{stamp}", kept.trim_end_matches(['.', '-'])).into()
}

/// A key is a hash, since whole messages would cost a kilobyte each.
fn digest(key: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;

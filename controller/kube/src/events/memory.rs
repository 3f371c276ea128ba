//! Counts equal events, and limits those of one source about one object (E-2, E-4).

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;

use super::Event;

/// So many events, and so many sources with their objects, are remembered at most. client-go remembers half as many.
const REMEMBERED: usize = 8192;

/// Events that one source may write about one object in one go, and in how many seconds it earns another one: those of
/// client-go's spam filter.
const BURST: i64 = 25;
const SECONDS_PER_EVENT: i64 = 300;

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
    records: HashMap<u64, Record>,
    /// When a source has earned its whole burst again, in seconds; by source and object.
    earned_at: HashMap<u64, i64>,
    last_stamp: i128,
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
        let record = entry(&mut self.records, identity);
        if record.count == 0 {
            // Two events of one moment, or a clock that was set back, must not share a name.
            self.last_stamp = event.at.as_nanosecond().max(self.last_stamp + 1);
            record.name = event_name(&object.name, self.last_stamp);
            record.first = event.at;
        }
        record.count = record.count.saturating_add(1);
        let now = event.at.as_second();
        let earned_at = entry(&mut self.earned_at, source);
        let missing = (*earned_at - now).max(0);
        if missing > (BURST - 1) * SECONDS_PER_EVENT {
            return None;
        }
        *earned_at = now + missing + SECONDS_PER_EVENT;
        Some(record.clone())
    }
}

/// The entry of `key`. All are forgotten once there are too many, which costs no more than a new Event for a repeat.
fn entry<V: Default>(entries: &mut HashMap<u64, V>, key: u64) -> &mut V {
    if entries.len() >= REMEMBERED && !entries.contains_key(&key) {
        entries.clear();
    }
    entries.entry(key).or_default()
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

//! Counts equal events, and limits those of one source about one object (E-2, E-4).
//!
//! The recorder asks before each write whether the event is new, raises the count of one that was written, or is dropped.
//! Time is a parameter, and the memory is bounded.

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
mod tests {
    use super::*;
    use crate::events::{EventContent, EventType, ObjectRef};

    fn event(message: &str, second: i64) -> Event {
        Event {
            component: "service-controller",
            object: ObjectRef {
                kind: "Service",
                namespace: "shop".into(),
                ..ObjectRef::node("web", "77aa")
            },
            content: EventContent::normal("EnsuringLoadBalancer", message),
            at: Timestamp::from_second(1_700_000_000 + second).unwrap(),
        }
    }

    /// The count of this event, if it is written.
    fn count(memory: &mut EventMemory, message: &str, second: i64) -> Option<u32> {
        let record = memory.observe(&event(message, second))?;
        Some(record.count)
    }

    #[test]
    fn e1_the_name_is_the_objects_and_a_moment_of_its_own() {
        let mut memory = EventMemory::default();
        let names = [("a", 0), ("b", 0), ("c", -5)]
            .map(|(message, second)| memory.observe(&event(message, second)).unwrap().name);
        assert_eq!(
            names.each_ref().map(|name| &**name),
            [
                "web.17979cfe362a0000",
                "web.17979cfe362a0001",
                "web.17979cfe362a0002"
            ]
        );
    }

    #[test]
    fn e1_a_long_name_is_cut_to_a_valid_one() {
        for (object, kept) in [
            ("n".repeat(253), 236),
            (format!("{}.-{}", "n".repeat(234), "n".repeat(17)), 234),
            ("n".repeat(236), 236),
        ] {
            let name = event_name(&object, 0x1797_9cfe_362a_0000);
            let expected = format!("{}.17979cfe362a0000", "n".repeat(kept));
            assert_eq!(&*name, expected, "{object}");
            assert!(name.len() <= 253);
        }
    }

    #[test]
    fn e2_events_that_differ_in_anything_are_not_equal() {
        let changes: [fn(&mut Event); 8] = [
            |event| event.component = "route_controller",
            |event| event.object.uid = "other".into(),
            |event| event.object.name = "other".into(),
            |event| event.object.namespace = "other".into(),
            |event| event.object.kind = "Node",
            |event| event.content.kind = EventType::Warning,
            |event| event.content.reason = "EnsuredLoadBalancer".into(),
            |event| event.content.message = "other".into(),
        ];
        let mut memory = EventMemory::default();
        memory.observe(&event("hello", 0));
        for change in changes {
            let mut other = event("hello", 1);
            change(&mut other);
            assert_eq!(memory.observe(&other).unwrap().count, 1, "{other:?}");
        }
    }

    #[test]
    fn e4_twenty_five_at_once_then_one_in_five_minutes_and_all_are_counted() {
        let mut memory = EventMemory::default();
        let counts: Vec<_> = (0..40)
            .filter_map(|_| count(&mut memory, "again", 0))
            .collect();
        assert_eq!(counts, (1..=25).collect::<Vec<_>>());
        for (second, expected) in [(299, None), (300, Some(42)), (599, None), (600, Some(44))] {
            assert_eq!(count(&mut memory, "again", second), expected, "{second}");
        }
    }

    #[test]
    fn e4_the_limit_is_for_source_and_object() {
        let mut memory = EventMemory::default();
        for n in 0..25 {
            assert_eq!(count(&mut memory, &n.to_string(), 0), Some(1));
        }
        assert_eq!(count(&mut memory, "another message", 0), None);
        let others: [fn(&mut Event); 2] = [
            |event| event.component = "route_controller",
            |event| event.object.uid = "other".into(),
        ];
        for change in others {
            let mut other = event("hello", 0);
            change(&mut other);
            assert!(memory.observe(&other).is_some(), "{other:?}");
        }
    }

    #[test]
    fn e4_a_clock_that_goes_back_neither_earns_nor_costs() {
        let mut memory = EventMemory::default();
        while count(&mut memory, "again", 1000).is_some() {}
        for (second, written) in [(0, false), (1299, false), (1300, true)] {
            let count = count(&mut memory, "again", second);
            assert_eq!(count.is_some(), written, "{second}");
        }
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut memory = EventMemory::default();
        for n in 0..3 * REMEMBERED {
            let mut event = event("hello", 0);
            event.object.name = n.to_string().into();
            assert_eq!(memory.observe(&event).unwrap().count, 1);
            assert!(memory.records.len() <= REMEMBERED && memory.earned_at.len() <= REMEMBERED);
        }
    }
}

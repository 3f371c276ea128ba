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

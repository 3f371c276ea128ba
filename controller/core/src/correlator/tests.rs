use proptest::{collection::vec, prelude::*};

use super::*;
use crate::fixture;

fn event(message: &str, second: i64) -> Event {
    Event {
        component: "service-controller",
        object: ObjectRef::service(&fixture::load_balancer("web")),
        kind: EventType::Normal,
        reason: "EnsuringLoadBalancer".into(),
        message: message.to_owned(),
        at: Timestamp::from_second(1_700_000_000 + second).unwrap(),
    }
}

/// Count and message of what is written.
fn observe(correlator: &mut Correlator, event: Event) -> Option<(u32, String)> {
    let record = correlator.observe(event)?;
    Some((record.count, record.event.message))
}

#[test]
fn e1_the_name_is_the_objects_and_the_time() {
    let mut correlator = Correlator::default();
    let record = correlator.observe(event("hello", 0)).unwrap();
    assert_eq!(&*record.name, "web.17979cfe362a0000");
    assert_eq!(record.count, 1);
    assert_eq!(record.first, event("", 0).at);
}

#[test]
fn e1_events_of_the_same_moment_have_names_of_their_own() {
    let mut correlator = Correlator::default();
    let names: Vec<_> = ["a", "b"]
        .map(|message| correlator.observe(event(message, 0)).unwrap().name)
        .into();
    let earlier = correlator.observe(event("c", -5)).unwrap().name;
    assert_eq!(&*names[0], "web.17979cfe362a0000");
    assert_eq!(&*names[1], "web.17979cfe362a0001");
    assert_eq!(&*earlier, "web.17979cfe362a0002");
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
fn b10_events_are_where_their_object_is_or_in_default() {
    assert_eq!(ObjectRef::node("n1", "u").event_namespace(), "default");
    assert_eq!(event("", 0).object.event_namespace(), "shop");
}

#[test]
fn a_service_is_named_as_upstream_names_it() {
    let expected = ObjectRef {
        api_version: "v1",
        kind: "Service",
        namespace: "shop".into(),
        name: "web".into(),
        uid: "uid-web".into(),
        resource_version: "7".into(),
    };
    assert_eq!(event("", 0).object, expected);
}

#[test]
fn leases_and_volumes_are_named_as_in_the_api() {
    let lease = ObjectRef {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        namespace: "kube-system".into(),
        name: "ccm".into(),
        uid: "u".into(),
        resource_version: "".into(),
    };
    assert_eq!(ObjectRef::lease("kube-system", "ccm", "u"), lease);
    let volume = ObjectRef {
        kind: "PersistentVolume",
        ..ObjectRef::node("pv", "u")
    };
    assert_eq!(ObjectRef::volume("pv", "u"), volume);
}

#[test]
fn the_api_has_two_types_of_events() {
    for (content, kind) in [
        (EventContent::normal("Reason", "text"), "Normal"),
        (EventContent::warning("Reason", "text"), "Warning"),
    ] {
        assert_eq!(content.kind.as_str(), kind);
        assert_eq!((&*content.reason, &*content.message), ("Reason", "text"));
    }
}

#[test]
fn e2_an_identical_event_raises_the_count_of_the_first() {
    let mut correlator = Correlator::default();
    let first = correlator.observe(event("hello", 0)).unwrap();
    let second = correlator.observe(event("hello", 90)).unwrap();
    assert_eq!(
        second,
        Record {
            count: 2,
            event: event("hello", 90),
            ..first
        }
    );
    let mut newer = event("hello", 91);
    newer.object.resource_version = "8".into();
    assert_eq!(correlator.observe(newer).unwrap().count, 3);
}

#[test]
fn e2_events_that_differ_in_anything_are_not_identical() {
    let changes: [fn(&mut Event); 8] = [
        |event| event.component = "route_controller",
        |event| event.object.uid = "other".into(),
        |event| event.object.name = "other".into(),
        |event| event.object.namespace = "other".into(),
        |event| event.object.kind = "Node",
        |event| event.kind = EventType::Warning,
        |event| event.reason = "EnsuredLoadBalancer".into(),
        |event| event.message = "other".into(),
    ];
    let mut correlator = Correlator::default();
    correlator.observe(event("hello", 0));
    for change in changes {
        let mut other = event("hello", 1);
        change(&mut other);
        let record = correlator.observe(other.clone()).unwrap();
        assert_eq!(record.count, 1, "{other:?}");
    }
}

#[test]
fn e3_the_tenth_message_and_later_ones_are_folded() {
    let mut correlator = Correlator::default();
    for n in 1..=9 {
        let message = format!("try {n}");
        let expected = Some((1, message.clone()));
        assert_eq!(observe(&mut correlator, event(&message, n)), expected);
    }
    for n in 10..=14 {
        let written = observe(&mut correlator, event(&format!("try {n}"), n)).unwrap();
        let message = format!("(combined from similar events): try {n}");
        assert_eq!(written, (n as u32 - 9, message));
    }
    // One of the first is still itself.
    let repeated = observe(&mut correlator, event("try 3", 20));
    assert_eq!(repeated, Some((2, "try 3".to_owned())));
}

#[test]
fn e3_after_ten_quiet_minutes_messages_are_themselves_again() {
    for (pause, folded) in [(600, true), (601, false)] {
        let mut correlator = Correlator::default();
        for n in 1..=10 {
            correlator.observe(event(&format!("try {n}"), 0));
        }
        let (_, message) = observe(&mut correlator, event("later", pause)).unwrap();
        assert_eq!(message.starts_with(FOLDED), folded, "after {pause} s");
    }
}

#[test]
fn e3_other_reasons_and_objects_are_not_similar() {
    let mut correlator = Correlator::default();
    for n in 1..=9 {
        correlator.observe(event(&format!("try {n}"), 0));
    }
    let mut reason = event("try 10", 0);
    reason.reason = "EnsuredLoadBalancer".into();
    let mut object = event("try 10", 0);
    object.object = ObjectRef::node("n1", "u");
    for other in [reason, object] {
        let expected = Some((1, "try 10".to_owned()));
        assert_eq!(observe(&mut correlator, other), expected);
    }
}

fn because(reason: &str, second: i64) -> Event {
    Event {
        reason: reason.into(),
        ..event("again", second)
    }
}

/// How many of these are written, one after the other.
fn written(correlator: &mut Correlator, event: &Event) -> usize {
    std::iter::from_fn(|| correlator.observe(event.clone())).count()
}

#[test]
fn e4_twenty_five_at_once_then_one_in_five_minutes() {
    let mut correlator = Correlator::default();
    let many =
        ["A", "B", "C", "D", "E"].map(|reason| written(&mut correlator, &because(reason, 0)));
    assert_eq!(many, [20, 5, 0, 0, 0]);
    for second in [299, 301, 599] {
        assert_eq!(
            written(&mut correlator, &because("F", second)),
            0,
            "{second}"
        );
        let earned = written(&mut correlator, &because("F", second + 1));
        assert_eq!(earned, usize::from(second != 301), "{second}");
    }
}

#[test]
fn e4_what_is_not_written_is_counted() {
    let mut correlator = Correlator::default();
    let counts: Vec<_> = (0..40)
        .filter_map(|_| observe(&mut correlator, event("again", 0)))
        .map(|(count, _)| count)
        .collect();
    assert_eq!(counts, (1..=20).collect::<Vec<_>>());
    assert_eq!(observe(&mut correlator, event("again", 299)), None);
    let next = observe(&mut correlator, event("again", 300));
    assert_eq!(next, Some((42, "again".to_owned())));
}

/// A provider's event that comes with each answer does not hide what the controller says.
#[test]
fn one_reason_leaves_room_for_others_for_ever() {
    let mut correlator = Correlator::default();
    let chatty = |correlator: &mut Correlator, from: i64, to: i64| -> usize {
        let seconds = (from..to).step_by(10);
        seconds
            .map(|at| written(correlator, &because("Chatty", at)))
            .sum()
    };
    let mut now = 0;
    for _ in 0..5 {
        chatty(&mut correlator, now, now + 3_600);
        now += 3_600;
        let others = ["A", "B"].map(|reason| written(&mut correlator, &because(reason, now)));
        assert_eq!(others.iter().sum::<usize>(), 5, "{now}");
    }
    // Alone it has all that is earned.
    chatty(&mut correlator, now, now + 3_600);
    assert_eq!(chatty(&mut correlator, now + 3_600, now + 7_200), 12);
}

#[test]
fn e4_the_budget_is_for_source_object_and_type() {
    let mut correlator = Correlator::default();
    for reason in ["A", "B"] {
        written(&mut correlator, &because(reason, 0));
    }
    assert_eq!(correlator.observe(because("C", 0)), None);

    let others: [fn(&mut Event); 3] = [
        |event| event.component = "route_controller",
        |event| event.object.uid = "other".into(),
        |event| event.kind = EventType::Warning,
    ];
    for other in others {
        let mut event = because("A", 0);
        other(&mut event);
        assert!(correlator.observe(event).is_some());
    }
}

#[test]
fn e4_a_clock_that_goes_back_neither_earns_nor_costs() {
    let mut correlator = Correlator::default();
    while correlator.observe(event("again", 1000)).is_some() {}
    assert_eq!(observe(&mut correlator, event("again", 0)), None);
    assert_eq!(observe(&mut correlator, event("again", 1299)), None);
    assert!(observe(&mut correlator, event("again", 1300)).is_some());
}

#[test]
fn messages_are_cut_between_characters() {
    let mut correlator = Correlator::default();
    for n in 0..9 {
        correlator.observe(event(&n.to_string(), 0));
    }
    let long = format!("{}ää", "x".repeat(1023));
    let record = correlator.observe(event(&long, 0)).unwrap();
    let expected = format!("{FOLDED}{}", "x".repeat(1024 - FOLDED.len()));
    assert_eq!(record.event.message, expected);
    assert_eq!(cut(long, MAX_MESSAGE), "x".repeat(1023));
    assert_eq!(cut("ä".to_owned(), 2), "ä");
}

#[test]
fn memory_is_bounded_and_the_oldest_event_is_dropped_first() {
    let mut correlator = Correlator::with_capacity(3);
    let about = |correlator: &mut Correlator, name: &str| {
        let mut event = event("hello", 0);
        event.object = ObjectRef::node(name, name);
        observe(correlator, event).unwrap().0
    };
    for name in ["a", "b", "c"] {
        assert_eq!(about(&mut correlator, name), 1);
    }
    assert_eq!(about(&mut correlator, "a"), 2);
    assert_eq!(about(&mut correlator, "d"), 1);
    assert_eq!(about(&mut correlator, "a"), 3);
    assert_eq!(about(&mut correlator, "b"), 1, "the oldest was forgotten");
    assert_eq!(correlator.logged.len(), 3);
    assert_eq!(correlator.similar.len(), 3);
    assert_eq!(correlator.budgets.len(), 3);
    assert_eq!(correlator.shares.len(), 3);
}

/// A history: component, object, reason, message, seconds since the one before.
fn history() -> impl Strategy<Value = Vec<(bool, u8, bool, u8, i64)>> {
    vec(
        (any::<bool>(), 0..4_u8, any::<bool>(), 0..30_u8, 0..200_i64),
        0..400,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_counted_folded_and_limited(history in history()) {
        let mut correlator = Correlator::default();
        let mut now = 0;
        let mut names = std::collections::HashMap::<_, Record>::new();
        let mut written = std::collections::HashMap::<_, Vec<i64>>::new();
        for (component, object, reason, message, pause) in history {
            now += pause;
            let mut event = event(&message.to_string(), now);
            if component {
                event.component = "route_controller";
            }
            if reason {
                event.reason = "EnsuredLoadBalancer".into();
            }
            event.object = ObjectRef::node(object.to_string(), "u");
            let Some(record) = correlator.observe(event.clone()) else {
                continue;
            };
            // It says what was said, as it is or folded.
            let text = &record.event.message;
            prop_assert_eq!(text.strip_prefix(FOLDED).unwrap_or(text), &event.message);
            prop_assert_eq!((record.event.at, &record.event.reason), (event.at, &event.reason));
            // Under a name of its own, with a count that only grows.
            if let Some(earlier) = names.insert(record.name.clone(), record.clone()) {
                prop_assert!(record.count > earlier.count);
                prop_assert_eq!(record.first, earlier.first);
                prop_assert_eq!(&record.event.object, &earlier.event.object);
                prop_assert_eq!(&record.event.reason, &earlier.event.reason);
                prop_assert!(text == &earlier.event.message || text.starts_with(FOLDED));
            } else if record.count == 1 {
                prop_assert_eq!(record.first, event.at);
            }
            // In any stretch of time no more than the burst and what it earns.
            let times = written.entry((component, object)).or_default();
            times.push(now);
            for (n, start) in times.iter().enumerate() {
                let most = 25.0 + (now - start) as f64 / 300.0;
                prop_assert!((times.len() - n) as f64 <= most + 1e-6);
            }
        }
    }
}

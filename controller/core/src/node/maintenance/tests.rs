use jiff::ToSpan;

use super::*;
use crate::{
    condition::Condition,
    fixture::{registered, taints},
};

const BOTH: MaintenanceSettings = MaintenanceSettings {
    condition: true,
    taint_before: Duration::from_hours(1),
};

fn at(minutes: i64) -> Timestamp {
    "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap() + minutes.minutes()
}

fn node() -> NodeView {
    NodeView {
        provider_id: "mock://n1".into(),
        taints: [].into(),
        ..registered("n1")
    }
}

fn machine(planned_maintenance: Option<PlannedMaintenance>) -> Instance {
    Instance {
        provider_id: "mock://n1".into(),
        planned_maintenance,
        ..Instance::default()
    }
}

fn announced(starts_at: Option<Timestamp>, reason: &str) -> Instance {
    let maintenance = PlannedMaintenance {
        starts_at,
        reason: reason.into(),
        ..PlannedMaintenance::default()
    };
    machine(Some(maintenance.checked()))
}

fn quiet() -> Instance {
    machine(None)
}

/// `node` with all writes that follow from an answer, one after the other, and how many these were.
fn answered(
    node: &NodeView,
    instance: &Instance,
    settings: MaintenanceSettings,
) -> (NodeView, usize) {
    let (mut node, mut writes) = (node.clone(), 0);
    while let Some(write) = plan(at(0), &node, instance, Unannounced(2), settings) {
        writes += 1;
        assert!(writes <= 2, "{write:?}");
        node = match write {
            MaintenanceWrite::Condition(write) => write.applied_to(&node, "2"),
            MaintenanceWrite::Taint(change) => change.applied_to(&node, "2"),
        };
    }
    (node, writes)
}

fn settled(node: &NodeView, instance: &Instance, settings: MaintenanceSettings) -> NodeView {
    answered(node, instance, settings).0
}

fn words(node: &NodeView) -> Vec<String> {
    let conditions = node.conditions.iter();
    let conditions =
        conditions.map(|c| format!("{} {} {}: {}", c.kind, c.status, c.reason, c.message));
    let taints = node
        .taints
        .iter()
        .map(|t| format!("{}={}:{}", t.key, t.value, t.effect));
    conditions.chain(taints).collect()
}

const CONDITION: &str =
    "MaintenancePlanned True AnnouncedByCloud: the cloud has announced maintenance of the machine";
const TAINT: &str = "outrigger.dev/maintenance-planned=AnnouncedByCloud:PreferNoSchedule";

fn is_tainted(node: &NodeView) -> bool {
    words(node).contains(&TAINT.to_owned())
}

#[test]
fn an_announcement_is_on_the_node_as_long_as_answers_have_it() {
    for (starts_at, reason, expected) in [
        (None, "", CONDITION.to_owned()),
        (None, "new host", format!("{CONDITION}: new host")),
        (
            Some(at(600)),
            "new host",
            format!("{CONDITION} from 2026-11-21T20:00:00Z on: new host"),
        ),
        (
            Some(Timestamp::MAX),
            "",
            format!("{CONDITION} from 9999-12-30T22:00:00Z on"),
        ),
    ] {
        let instance = announced(starts_at, reason);
        let (during, writes) = answered(&node(), &instance, BOTH);
        assert_eq!((words(&during), writes), (vec![expected], 1));
        assert_eq!(during.conditions[0].last_transition_time, Some(at(0)));
        // Nothing of it changes with time alone.
        assert_eq!(plan(at(10), &during, &instance, Unannounced(2), BOTH), None);

        let (end, writes) = answered(&during, &quiet(), BOTH);
        assert_eq!((words(&end).len(), writes), (0, 1));
    }
    assert_eq!(answered(&node(), &quiet(), BOTH).1, 0);
}

#[test]
fn the_condition_says_kind_id_and_end_and_another_one_that_the_work_has_begun() {
    let (start, end) = ("2026-11-21T10:00:00Z", "2026-11-21T12:00:00Z");
    for (kind, starts_at, ends_at, reason, work) in [
        (
            MaintenanceKind::Unknown,
            Some(at(0)),
            Some(at(120)),
            "AnnouncedByCloud",
            format!("maintenance of the machine from {start} to {end}"),
        ),
        (
            MaintenanceKind::Reboot,
            Some(at(0)),
            None,
            "RebootAnnouncedByCloud",
            format!("a reboot of the machine from {start} on"),
        ),
        (
            MaintenanceKind::Replace,
            None,
            Some(at(120)),
            "ReplacementAnnouncedByCloud",
            format!("the replacement of the machine until {end}"),
        ),
        (
            MaintenanceKind::Retire,
            None,
            None,
            "RetirementAnnouncedByCloud",
            "the retirement of the machine".to_owned(),
        ),
        (
            MaintenanceKind::Emergency,
            None,
            None,
            "EmergencyAnnouncedByCloud",
            "emergency maintenance of the machine".to_owned(),
        ),
    ] {
        let mut maintenance = PlannedMaintenance {
            starts_at,
            ends_at,
            kind,
            id: "event-1".into(),
            in_progress: true,
            reason: "new host".into(),
        };
        let of = |kind: &str, has: &str| {
            format!("{kind} True {reason}: the cloud has {has} {work} (event-1): new host")
        };
        let planned = of("MaintenancePlanned", "announced");
        let begun = of("MaintenanceInProgress", "begun");
        let settings = MaintenanceSettings {
            condition: true,
            ..MaintenanceSettings::default()
        };
        let (during, writes) = answered(&node(), &machine(Some(maintenance.clone())), settings);
        assert_eq!((words(&during), writes), (vec![begun, planned.clone()], 1));
        let is_retired = is_retirement_announced(&during.conditions);
        assert_eq!(is_retired, kind == MaintenanceKind::Retire);
        assert_eq!(during.is_end_announced(), is_retired);
        let (end, writes) = answered(&during, &quiet(), settings);
        assert_eq!((words(&end).len(), writes), (0, 1));
        maintenance.in_progress = false;
        let (paused, writes) = answered(&during, &machine(Some(maintenance)), settings);
        assert_eq!((words(&paused), writes), (vec![planned], 1));
    }
}

#[test]
fn two_answers_in_a_row_without_an_announcement_take_it_back() {
    let instance = announced(Some(at(0)), "");
    let shown = settled(&node(), &instance, BOTH);
    let only_tainted = NodeView {
        conditions: [].into(),
        ..shown.clone()
    };
    for node in [&shown, &only_tainted] {
        let mut unannounced = Unannounced::default();
        for (instance, is_taken_back) in [
            (&quiet(), false),
            (&instance, false),
            (&quiet(), false),
            (&quiet(), true),
            (&quiet(), true),
        ] {
            unannounced.count(node, instance);
            let write = plan(at(0), node, &quiet(), unannounced, BOTH);
            assert_eq!(write.is_some(), is_taken_back, "{unannounced:?}");
        }
    }
    // Nothing is remembered of other Nodes.
    for other in [node(), of_operator()] {
        let mut unannounced = Unannounced::default();
        unannounced.count(&other, &quiet());
        assert_eq!(unannounced, Unannounced::default());
    }
}

/// Only the words change, and so not the time of the transition.
#[test]
fn another_time_is_shown_and_is_no_transition() {
    let first = settled(&node(), &announced(Some(at(600)), ""), BOTH);
    let later = announced(Some(at(660)), "");
    let second = settled(&first, &later, BOTH);
    assert!(second.conditions[0].message.contains("21:00:00Z"));
    assert_eq!(second.conditions[0].last_transition_time, Some(at(0)));
}

#[test]
fn the_taint_comes_ahead_of_time_and_goes_with_the_announcement() {
    for (starts_at, expected) in [
        (Some(at(61)), false),
        (Some(at(60)), true),
        (Some(at(0)), true),
        (Some(at(-600)), true),
        (Some(Timestamp::UNIX_EPOCH), false),
        (Some(Timestamp::MAX), false),
        (None, false),
    ] {
        let (during, _) = answered(&node(), &announced(starts_at, ""), BOTH);
        assert_eq!(is_tainted(&during), expected, "{starts_at:?}");
        let end = settled(&during, &quiet(), BOTH);
        assert_eq!(words(&end), Vec::<String>::new());
    }
    let soon = settled(&node(), &announced(Some(at(30)), ""), BOTH);
    let put_off = announced(Some(at(300)), "");
    assert!(!is_tainted(&settled(&soon, &put_off, BOTH)));
}

#[test]
fn each_flag_is_for_its_own_part_and_without_it_that_part_goes() {
    let instance = announced(Some(at(0)), "");
    for (condition, taint_before, expected) in [
        (false, Duration::ZERO, 0),
        (true, Duration::ZERO, 1),
        (false, Duration::from_hours(1), 1),
        (true, Duration::from_hours(1), 2),
    ] {
        let settings = MaintenanceSettings {
            condition,
            taint_before,
        };
        let (during, writes) = answered(&node(), &instance, settings);
        assert_eq!((words(&during).len(), writes), (expected, expected));
        let off = settled(&during, &instance, MaintenanceSettings::default());
        assert_eq!(words(&off), Vec::<String>::new());
    }
}

fn of_operator() -> NodeView {
    NodeView {
        conditions: [MAINTENANCE_IN_PROGRESS, MAINTENANCE_PLANNED]
            .map(|kind| Condition {
                kind: kind.into(),
                status: "True".into(),
                reason: "MaintenanceWindow".into(),
                ..Condition::default()
            })
            .into(),
        taints: [Taint::new(TAINT_MAINTENANCE, "", EFFECT_PREFER_NO_SCHEDULE)].into(),
        ..node()
    }
}

#[test]
fn the_condition_and_the_taint_of_an_operator_stay_as_they_are() {
    let own = of_operator();
    for instance in [announced(Some(at(0)), "new host"), quiet()] {
        assert_eq!(answered(&own, &instance, BOTH).1, 0);
    }
    // Another effect is another taint.
    let mut own = own;
    own.taints[0].effect = "NoSchedule".into();
    let during = settled(&own, &announced(Some(at(0)), ""), BOTH);
    assert!(is_tainted(&during));
    assert_eq!(settled(&during, &quiet(), BOTH).taints, own.taints);
}

#[test]
fn a_removal_names_the_value_by_which_the_taint_is_ours() {
    let during = settled(&node(), &announced(Some(at(0)), ""), BOTH);
    let off = MaintenanceSettings {
        condition: true,
        ..MaintenanceSettings::default()
    };
    let Some(MaintenanceWrite::Taint(change)) = plan(
        at(0),
        &during,
        &announced(Some(at(0)), ""),
        Unannounced(0),
        off,
    ) else {
        panic!("no removal");
    };
    assert_eq!(&*change.remove_taints[0].value, ANNOUNCED);
}

#[test]
fn a_node_that_is_not_initialised_or_has_another_machine_is_left_alone() {
    let instance = announced(Some(at(0)), "");
    let young = NodeView {
        taints: taints("cloud:NoSchedule"),
        ..node()
    };
    let another = NodeView {
        provider_id: "mock://n2".into(),
        ..node()
    };
    for node in [young, another] {
        assert_eq!(answered(&node, &instance, BOTH).1, 0);
    }
}

#[test]
fn a_change_of_the_condition_has_an_event() {
    let events = |node: &NodeView, instance: &Instance| {
        let write = plan(at(0), node, instance, Unannounced(2), BOTH).unwrap();
        let events = write.events().into_iter();
        events
            .map(|event| (event.reason, event.message))
            .collect::<Vec<_>>()
    };
    let instance = announced(Some(at(0)), "new host");
    let text =
        "the cloud has announced maintenance of the machine from 2026-11-21T10:00:00Z on: new host";
    let event = |reason: &str, text: &str| -> (Box<str>, Box<str>) { (reason.into(), text.into()) };
    let planned = event("MaintenancePlanned", text);
    assert_eq!(events(&node(), &instance), std::slice::from_ref(&planned));
    let mut begun = instance.clone();
    begun.planned_maintenance.as_mut().unwrap().in_progress = true;
    let begins = event("MaintenanceInProgress", &text.replace("announced", "begun"));
    assert_eq!(events(&node(), &begun), [planned, begins.clone()]);
    let during = settled(&node(), &instance, BOTH);
    assert_eq!(events(&during, &begun), [begins]);
    let during = settled(&during, &begun, BOTH);
    assert!(events(&during, &instance).is_empty());
    assert_eq!(events(&during, &quiet()).len(), 1);
    let tainted = NodeView {
        conditions: [].into(),
        ..settled(&node(), &instance, BOTH)
    };
    assert!(events(&tainted, &quiet()).is_empty());
    let (_, message) = &events(&settled(&node(), &instance, BOTH), &quiet())[0];
    assert!(message.contains("no maintenance"), "{message}");
}

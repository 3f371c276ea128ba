use jiff::Timestamp;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::plan;
use crate::{
    condition::{Condition, ConditionChange, Status, find},
    effects::{DesiredCondition, Effects},
    fixture::{map, registered},
    node::{LABEL_PAUSED, NodeView},
};

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).unwrap()
}

fn wanted(status: Status, reason: &str) -> DesiredCondition {
    DesiredCondition {
        status,
        reason: reason.into(),
        message: "m".into(),
    }
}

fn annotated(changes: &[(&str, Option<&str>)]) -> Effects {
    let changes = changes.iter();
    Effects {
        annotations: changes
            .map(|(key, value)| ((*key).into(), value.map(Into::into)))
            .collect(),
        ..Effects::default()
    }
}

fn conditions(changes: Vec<(&str, Option<DesiredCondition>)>) -> Effects {
    let changes = changes.into_iter();
    Effects {
        conditions: changes
            .map(|(kind, condition)| (kind.into(), condition))
            .collect(),
        ..Effects::default()
    }
}

/// A Node with the annotation `x/a=1` and the condition `x/A`.
fn node() -> NodeView {
    NodeView {
        annotations: map(&[("x/a", "1")]),
        conditions: [Condition {
            kind: "x/A".into(),
            status: "True".into(),
            reason: "R".into(),
            message: "m".into(),
            last_transition_time: Some(at(5)),
        }]
        .into(),
        ..registered("n")
    }
}

#[test]
fn only_differences_are_written() {
    for (effects, written) in [
        (annotated(&[("x/a", Some("1")), ("x/b", None)]), None),
        (annotated(&[("x/a", None)]), Some(vec![("x/a", None)])),
        (
            annotated(&[("x/a", Some("2")), ("x/b", Some(""))]),
            Some(vec![("x/a", Some("2")), ("x/b", Some(""))]),
        ),
        // The later one counts, also where it is what is there.
        (annotated(&[("x/a", Some("2")), ("x/a", Some("1"))]), None),
        (
            annotated(&[("x/a", Some("2")), ("x/a", None)]),
            Some(vec![("x/a", None)]),
        ),
    ] {
        let write = plan(at(9), &node(), &effects);
        let annotations = write.as_ref().map(|write| {
            let changes = write.annotations.iter();
            changes.map(|(k, v)| (&**k, v.as_deref())).collect()
        });
        assert_eq!(annotations, written);
    }
}

#[test]
fn the_time_of_a_condition_is_that_of_its_status() {
    for (kind, change, since) in [
        ("x/A", Some(wanted(Status::True, "R")), None),
        ("x/A", Some(wanted(Status::True, "Other")), Some(at(5))),
        ("x/A", Some(wanted(Status::False, "R")), Some(at(9))),
        ("x/B", Some(wanted(Status::True, "R")), Some(at(9))),
        ("x/B", None, None),
    ] {
        let write = plan(at(9), &node(), &conditions(vec![(kind, change)]));
        let changed = write.map(|write| match &*write.conditions {
            [ConditionChange::Set(set)] => set.last_transition_time,
            other => panic!("{other:?}"),
        });
        assert_eq!(changed, since.map(Some));
    }
    let removed = plan(at(9), &node(), &conditions(vec![("x/A", None)])).unwrap();
    assert_eq!(removed.conditions, [ConditionChange::Remove("x/A".into())]);
    let after = removed.applied_to(&node(), "8");
    assert!(after.conditions.is_empty());
    assert_eq!(&*after.resource_version, "8");
}

#[test]
fn a_paused_node_is_not_written_to() {
    let node = NodeView {
        labels: map(&[(LABEL_PAUSED, "true")]),
        ..node()
    };
    assert_eq!(plan(at(9), &node, &annotated(&[("x/b", Some("1"))])), None);
}

fn status() -> impl Strategy<Value = Option<DesiredCondition>> {
    select(vec![
        None,
        Some(wanted(Status::True, "R")),
        Some(wanted(Status::False, "S")),
    ])
}

proptest! {
    #[test]
    fn a_written_node_needs_no_other_write(
        annotations in vec((select(vec!["x/a", "x/b"]), option::of(select(vec!["1", "2"]))), 0..5),
        wishes in vec((select(vec!["x/A", "x/B", "w/C"]), status()), 0..5),
    ) {
        let effects = Effects {
            annotations: annotated(&annotations).annotations,
            ..conditions(wishes.clone())
        };
        let node = node();
        let after = match plan(at(9), &node, &effects) {
            Some(write) => {
                let after = write.applied_to(&node, "8");
                prop_assert!(after != node);
                prop_assert_eq!(plan(at(10), &after, &effects), None);
                after
            }
            None => node,
        };
        for (key, value) in annotations.iter().rev().take(1) {
            prop_assert_eq!(after.annotations.get(key), *value);
        }
        for (kind, wish) in wishes.iter().rev().take(1) {
            let found = find(&after.conditions, kind).map(|found| &*found.status);
            prop_assert_eq!(found, wish.as_ref().map(|wish| wish.status.as_str()));
        }
        prop_assert!(after.conditions.is_sorted_by_key(|condition| &condition.kind));
    }
}

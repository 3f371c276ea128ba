//! Answers that come after a change of what they are about, and what ends a row of absences.

use super::*;

/// Answers that come after a change of what they are about.
#[test]
fn a_late_answer_does_not_delete() {
    let node_at_lookup = lost("n1");
    let unnamed = NodeView {
        provider_id: "".into(),
        ..node_at_lookup.clone()
    };
    for (what, node_at_lookup, node) in [
        (
            "registered again",
            &node_at_lookup,
            NodeView {
                uid: "another".into(),
                ..node_at_lookup.clone()
            },
        ),
        ("given an id", &unnamed, node_at_lookup.clone()),
        (
            "ready and lost again",
            &node_at_lookup,
            NodeView {
                ready_since: Some(at(1)),
                ..node_at_lookup.clone()
            },
        ),
        (
            "its kubelet says no",
            &node_at_lookup,
            NodeView {
                ready: Ready::False,
                ..node_at_lookup.clone()
            },
        ),
        (
            "without an id, labelled",
            &unnamed,
            NodeView {
                labels: map(&[("a", "b")]),
                ..unnamed.clone()
            },
        ),
        (
            "without an id, another machine",
            &unnamed,
            NodeView {
                system_uuid: "another".into(),
                ..unnamed.clone()
            },
        ),
    ] {
        let mut rig = Rig::quick();
        rig.check(0, node_at_lookup);
        let action = rig.answered_late(2, &node, node_at_lookup, &GONE).action;
        assert_eq!(
            action,
            LifecycleAction::Inconclusive(Inconclusive::NodeChanged),
            "{what}"
        );
        assert_eq!(rig.lifecycle.counts(at(2), 100).total(), 0, "{what}");
    }
    // Irrelevant changes: taints, heartbeats, labels of a node with an ID.
    let node = NodeView {
        resource_version: "8".into(),
        labels: map(&[("a", "b")]),
        ..tainted(&node_at_lookup, "a:NoExecute")
    };
    let mut rig = Rig::quick();
    rig.check(0, &node_at_lookup);
    assert_eq!(
        rig.answered_late(2, &node, &node_at_lookup, &GONE).action,
        deletion(&node)
    );
}

#[test]
fn a_change_during_the_lookup_ends_the_question() {
    let node_at_lookup = lost("n1");
    let stopped = found(&node_at_lookup, PowerState::Shutdown);
    for (node, expected) in [
        (ready(&node_at_lookup), READY),
        (
            labelled(&node_at_lookup, LABEL_PAUSED),
            Check::Idle(Idle::Paused),
        ),
        (
            NodeView {
                deleted: Some(at(1)),
                ..node_at_lookup.clone()
            },
            Check::Idle(Idle::BeingDeleted),
        ),
    ] {
        for lookup in [&GONE, &stopped] {
            let mut rig = Rig::quick();
            rig.check(0, &node_at_lookup);
            let verdict = rig.answered_late(2, &node, &node_at_lookup, lookup);
            let next = expected.clone();
            let action = LifecycleAction::Keep;
            assert_eq!(verdict, LifecycleDecision { action, next });
        }
    }
    // The taint goes at once.
    let node = tainted(&ready(&node_at_lookup), "shutdown:NoSchedule");
    let mut rig = Rig::quick();
    rig.check(0, &node_at_lookup);
    let next = rig.answered_late(2, &node, &node_at_lookup, &GONE).next;
    assert!(matches!(next, Check::RemoveTaints(_)), "{next:?}");
}

/// A row of two absences with something in between. Returns whether it has to begin again.
fn begins_again(between: impl FnOnce(&mut Rig, &NodeView)) -> bool {
    let mut rig = Rig::new(DeletionLimits::default());
    let node = lost("n1");
    rig.check(0, &node);
    rig.answered(1, &node, &GONE);
    between(&mut rig, &node);
    rig.check(20, &node);
    let LifecycleDecision { action, .. } = rig.answered(20, &node, &GONE);
    let LifecycleAction::Withhold(Withheld::Refused(refusal)) = action else {
        return false;
    };
    matches!(refusal, DeletionRefusal::LookAgain { .. })
}

#[test]
fn another_answer_or_a_ready_kubelet_ends_a_row_of_absences() {
    assert!(!begins_again(|_, _| {}));
    for (name, answer) in [
        ("uncertain", NOT_SEEN),
        ("found", found(&lost("n1"), PowerState::Running)),
        ("another", found(&lost("n2"), PowerState::Running)),
    ] {
        let is_ended = begins_again(|rig, node| {
            rig.answered(6, node, &answer);
        });
        assert!(is_ended, "{name}");
    }
    assert!(begins_again(|rig, node| {
        rig.check(6, &ready(node));
    }));
}

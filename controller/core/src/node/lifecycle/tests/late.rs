//! Answers that come after a change of what they are about.

use super::*;

/// Answers that come after a change of what they are about.
#[test]
fn a_late_answer_does_not_delete() {
    let asked = lost("n1");
    let unnamed = NodeView {
        provider_id: "".into(),
        ..asked.clone()
    };
    for (what, asked, node) in [
        (
            "registered anew",
            &asked,
            NodeView {
                uid: "another".into(),
                ..asked.clone()
            },
        ),
        ("given an id", &unnamed, asked.clone()),
        (
            "ready and lost again",
            &asked,
            NodeView {
                ready_since: Some(at(1)),
                ..asked.clone()
            },
        ),
        (
            "its kubelet says no",
            &asked,
            NodeView {
                ready: Ready::False,
                ..asked.clone()
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
        rig.check(0, asked);
        let action = rig.answered_late(2, &node, asked, &GONE).action;
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
        ..tainted(&asked, "a:NoExecute")
    };
    let mut rig = Rig::quick();
    rig.check(0, &asked);
    assert_eq!(
        rig.answered_late(2, &node, &asked, &GONE).action,
        deletion(&node)
    );
}

#[test]
fn a_change_during_the_lookup_ends_the_question() {
    let asked = lost("n1");
    let stopped = found(&asked, PowerState::Shutdown);
    for (node, expected) in [
        (ready(&asked), READY),
        (labelled(&asked, LABEL_PAUSED), Check::Idle(Idle::Paused)),
        (
            NodeView {
                deleted: Some(at(1)),
                ..asked.clone()
            },
            Check::Idle(Idle::BeingDeleted),
        ),
    ] {
        for lookup in [&GONE, &stopped] {
            let mut rig = Rig::quick();
            rig.check(0, &asked);
            let verdict = rig.answered_late(2, &node, &asked, lookup);
            let next = expected.clone();
            let action = LifecycleAction::Keep;
            assert_eq!(verdict, LifecycleDecision { action, next });
        }
    }
    // The taint goes at once.
    let node = tainted(&ready(&asked), "shutdown:NoSchedule");
    let mut rig = Rig::quick();
    rig.check(0, &asked);
    let next = rig.answered_late(2, &node, &asked, &GONE).next;
    assert!(matches!(next, Check::RemoveShutdownTaint(_)), "{next:?}");
}

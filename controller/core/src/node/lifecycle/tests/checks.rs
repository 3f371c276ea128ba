//! Which nodes are looked up when, and the consequences of an instance that exists.

use super::*;

#[test]
fn l3_only_nodes_that_are_not_ready_are_asked_about() {
    let node = lost("n1");
    for (what, node, expected) in [
        ("unknown", node.clone(), Check::Ask),
        (
            "not ready",
            NodeView {
                ready: Ready::False,
                ..node.clone()
            },
            Check::Ask,
        ),
        (
            // Absent condition: never ready.
            "no condition",
            NodeView {
                ready_since: None,
                ..node.clone()
            },
            Check::Ask,
        ),
        // L-6: initialised or not.
        ("tainted", tainted(&node, "cloud:NoSchedule"), Check::Ask),
        (
            "without an id",
            NodeView {
                provider_id: "".into(),
                ..node.clone()
            },
            Check::Ask,
        ),
        ("ready", ready(&node), READY),
        (
            "another provider's",
            NodeView {
                provider_id: "other://n1".into(),
                ..node.clone()
            },
            Check::Idle(Idle::Foreign),
        ),
        (
            "held",
            labelled(&node, LABEL_PAUSED),
            Check::Idle(Idle::Paused),
        ),
        (
            "being deleted",
            NodeView {
                deleted: Some(at(-1)),
                ..node.clone()
            },
            Check::Idle(Idle::BeingDeleted),
        ),
    ] {
        assert_eq!(Rig::quick().check(0, &node), expected, "{what}");
    }
    let mut rig = Rig::quick();
    rig.not_managed = true;
    assert_eq!(rig.check(0, &node), Check::Idle(Idle::NotManaged));
}

/// Upstream's pace, and then ever more rarely.
#[test]
fn l1_checks_are_prompt_at_first() {
    let mut rig = Rig::quick();
    let node = lost("n1");
    let mut now = 0;
    let mut made = Vec::new();
    for _ in 0..12 {
        assert_eq!(rig.check(now, &node), Check::Ask);
        made.push(now);
        let verdict = rig.answered(now, &node, &found(&node, PowerState::Running));
        let Check::At(next) = verdict.next else {
            panic!("{verdict:?}");
        };
        // Nothing before, whatever changes about the node.
        now = next.as_second() - at(0).as_second();
        assert_eq!(
            rig.check(now - 1, &tainted(&node, "a:NoExecute")),
            verdict.next
        );
    }
    assert_eq!(made, [0, 5, 10, 15, 20, 25, 30, 40, 60, 100, 160, 220]);
    // A ready node ends the count, and the next time it begins at zero again.
    assert_eq!(rig.check(now, &ready(&node)), READY);
    assert_eq!(rig.check(now + 1, &node), Check::Ask);
}

#[test]
fn l1_a_longer_period_is_kept() {
    let mut rig = Rig::new(DeletionLimits {
        period: Duration::from_mins(2),
        ..DeletionLimits::default()
    });
    let node = lost("n1");
    for check in 0..20 {
        assert_eq!(rig.check(check * 120, &node), Check::Ask);
        let next = rig.failed(check * 120, &node).next;
        assert_eq!(next, Check::At(at((check + 1) * 120)));
    }
}

#[test]
fn l10_a_stopped_instance_taints_the_node_once() {
    let expected = NodeChange {
        add_taint: Some(Taint::new(TAINT_SHUTDOWN, "", EFFECT_NO_SCHEDULE)),
        ..NodeChange::default()
    };
    let node = lost("n1");
    let stopped = found(&node, PowerState::Shutdown);
    assert_eq!(
        verdict(&node, &stopped),
        LifecycleAction::AddShutdownTaint(expected.clone())
    );
    let after = expected.applied_to(&node, "9");
    assert_eq!(
        after,
        NodeView {
            resource_version: "9".into(),
            ..tainted(&node, "shutdown:NoSchedule")
        }
    );
    assert_eq!(verdict(&after, &stopped), LifecycleAction::Keep);

    let other = tainted(&node, "shutdown:NoExecute a:NoSchedule");
    assert_eq!(
        verdict(&other, &stopped),
        LifecycleAction::AddShutdownTaint(expected.clone())
    );
    assert_eq!(
        expected.applied_to(&other, "9").taints,
        tainted(&node, "shutdown:NoExecute a:NoSchedule shutdown:NoSchedule").taints
    );
}

/// L-13: and a taint that is there stays, for the kubelet has not said that it is back.
#[test]
fn l13_other_power_states_change_nothing() {
    for power_state in [
        PowerState::Unknown,
        PowerState::Pending,
        PowerState::Running,
    ] {
        for node in [lost("n1"), tainted(&lost("n1"), "shutdown:NoSchedule")] {
            let action = verdict(&node, &found(&node, power_state));
            assert_eq!(action, LifecycleAction::Keep, "{power_state:?}");
        }
    }
}

#[test]
fn l3_a_ready_node_loses_the_taint_without_a_question() {
    let node = tainted(
        &ready(&lost("n1")),
        "a:NoSchedule shutdown:NoSchedule shutdown:NoExecute",
    );
    let expected = NodeChange {
        remove_taints: vec![node.taints[1].clone()],
        ..NodeChange::default()
    };
    assert_eq!(
        Rig::quick().check(0, &node),
        Check::RemoveTaints(expected.clone())
    );
    let after = expected.applied_to(&node, "9");
    assert_eq!(
        after.taints,
        tainted(&node, "a:NoSchedule shutdown:NoExecute").taints
    );
    assert_eq!(Rig::quick().check(0, &after), READY);
    // Not from another provider's nodes, nor from paused ones.
    let foreign = NodeView {
        provider_id: "other://n1".into(),
        ..node.clone()
    };
    assert_eq!(Rig::quick().check(0, &foreign), Check::Idle(Idle::Foreign));
    let held = labelled(&node, LABEL_PAUSED);
    assert_eq!(Rig::quick().check(0, &held), Check::Idle(Idle::Paused));
}

/// A long wait between two checks does not delay the second answer, nor a deletion that failed.
#[test]
fn the_second_answer_is_asked_for_soon_however_long_the_node_was_lost() {
    let mut rig = Rig::new(DeletionLimits::default());
    let node = lost("n1");
    let mut now = 0;
    for _ in 0..12 {
        assert_eq!(rig.check(now, &node), Check::Ask);
        let Check::At(next) = rig.failed(now, &node).next else {
            panic!();
        };
        now = next.as_second() - at(0).as_second();
    }
    assert_eq!(rig.check(now, &node), Check::Ask);
    for (answer, action) in [
        (
            1,
            LifecycleAction::Withhold(
                Measure::Deletion,
                Withheld::Refused(DeletionRefusal::LookAgain { at: at(now + 5) }),
            ),
        ),
        (2, deletion()),
        (3, deletion()),
    ] {
        let verdict = rig.answered(now, &node, &GONE);
        assert_eq!(verdict.action, action, "{answer}");
        now += 5;
        assert_eq!(verdict.next, Check::At(at(now)), "{answer}");
        assert_eq!(rig.check(now, &node), Check::Ask);
    }
}

#[test]
fn a_node_that_is_not_managed_is_left_to_whoever_manages_it() {
    let node = lost("n1");
    let mut rig = Rig::new(DeletionLimits::default());
    rig.check(0, &node);
    rig.answered(0, &node, &GONE);
    assert_eq!(rig.lifecycle.counts(at(0), 100).absent, 1);
    let reason = "on premises".into();
    assert_eq!(
        rig.answered(5, &node, &not_managed()),
        LifecycleDecision {
            action: LifecycleAction::NotManaged { reason },
            next: Check::Idle(Idle::NotManaged)
        }
    );
    assert_eq!(rig.lifecycle.counts(at(5), 100).absent, 0);
}

#[test]
fn nothing_is_remembered_of_nodes_that_are_gone() {
    let mut rig = Rig::quick();
    let node = lost("n1");
    rig.check(0, &node);
    rig.answered(0, &node, &GONE);
    rig.lifecycle.removed(at(1), &node.name);
    assert!(rig.lifecycle.watched.is_empty());
    assert_eq!(rig.lifecycle.counts(at(2), 100).deleted, 1);

    // The node registered again between two looks.
    let node = lost("n2");
    rig.check(0, &node);
    rig.answered(0, &node, &GONE);
    let anew = NodeView {
        uid: "another".into(),
        ..node
    };
    assert_eq!(rig.check(1, &anew), Check::Ask);
    let counts = rig.lifecycle.counts(at(2), 100);
    assert_eq!((counts.absent, counts.deleted), (0, 2));
    assert_eq!(rig.lifecycle.watched.len(), 1);
}

#[test]
fn an_instance_being_deleted_counts_as_stopped() {
    let node = lost("n1");
    let action = verdict(&node, &found(&node, PowerState::Terminating));
    assert!(
        matches!(action, LifecycleAction::AddShutdownTaint(_)),
        "{action:?}"
    );
}

/// Nodes of a cluster that is being made are not ready for a while, and nothing could follow.
#[test]
fn a_young_node_is_first_asked_about_when_it_could_be_deleted() {
    let node = NodeView {
        created: at(-57),
        ..lost("n1")
    };
    let mut rig = Rig::quick();
    assert_eq!(rig.check(0, &node), Check::At(at(3)));
    assert_eq!(rig.check(3, &node), Check::Ask);
}

/// The store lags behind what the API server has accepted.
#[test]
fn a_node_that_was_deleted_is_left_alone_and_counted_once() {
    let mut rig = Rig::quick();
    let node = lost("n1");
    rig.check(0, &node);
    assert_eq!(rig.answered(0, &node, &GONE).action, deletion());
    rig.lifecycle.deleted(at(0), &node);
    for node in [node.clone(), ready(&node)] {
        let left = Check::Idle(Idle::BeingDeleted);
        assert_eq!(rig.check(5, &node), left);
        let lookup = found(&node, PowerState::Running);
        assert_eq!(rig.answered(5, &node, &lookup).next, left);
    }
    assert_eq!(rig.lifecycle.counts(at(5), 99).deleted, 1);
    rig.lifecycle.removed(at(6), &node.name);
    assert_eq!(rig.lifecycle.counts(at(6), 99).deleted, 1);
    // A new one of the name is another node, whether the deletion of the old one was delivered or not.
    rig.check(7, &node);
    rig.answered(7, &node, &GONE);
    rig.lifecycle.deleted(at(7), &node);
    let anew = NodeView {
        uid: "another".into(),
        ..node
    };
    rig.lifecycle.deleted(at(7), &anew);
    assert_eq!(rig.check(8, &anew), Check::Ask);
    assert_eq!(rig.lifecycle.counts(at(8), 99).deleted, 2);
}

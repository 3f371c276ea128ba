//! When a node is deleted.

use super::*;

/// L-5: certainty alone deletes.
#[test]
fn l5_only_a_confirmed_absence_deletes() {
    let node = lost("n1");
    assert_eq!(verdict(&node, &GONE), deletion());
    assert_eq!(
        verdict(&node, &NOT_SEEN),
        LifecycleAction::Inconclusive(Inconclusive::NotConfirmed)
    );
    let other = found(&lost("n2"), PowerState::Shutdown);
    let instance_id = "mock://n2".into();
    assert_eq!(
        verdict(&node, &other),
        LifecycleAction::Inconclusive(Inconclusive::AnotherInstance { instance_id })
    );
    let mut rig = Rig::quick();
    rig.check(0, &node);
    assert_eq!(
        rig.failed(1, &node),
        LifecycleDecision {
            action: LifecycleAction::Inconclusive(Inconclusive::NoAnswer),
            next: Check::At(at(6))
        }
    );
}

#[test]
fn a_node_without_an_id_is_deleted_only_if_it_is_ours() {
    let node = NodeView {
        provider_id: "".into(),
        labels: map(&[("pool", "blue")]),
        ..lost("n1")
    };
    for (selector, foreign_prefix_seen, deleted) in [
        (None, false, true),
        (None, true, false),
        (Some("pool=blue"), true, true),
        (Some("pool=red"), false, false),
    ] {
        let mut rig = Rig::quick();
        rig.selector = selector.map(|selector| selector.parse().unwrap());
        rig.foreign_prefix_seen = foreign_prefix_seen;
        rig.check(0, &node);
        let action = rig.answered(0, &node, &GONE).action;
        let what = format!("{selector:?} {foreign_prefix_seen}");
        assert_eq!(
            matches!(action, LifecycleAction::Delete(_)),
            deleted,
            "{what}"
        );
        if !deleted {
            // Another provider's by the selector: never looked up.
            let expected = match selector {
                Some(_) => LifecycleAction::Keep,
                None => LifecycleAction::Withhold(Measure::Deletion, Withheld::NotOwned),
            };
            assert_eq!(action, expected, "{what}");
            let counts = rig.lifecycle.counts(at(0), 100);
            assert_eq!(counts.total(), 0, "{what}: none of ours is absent");
        }
    }
}

/// The contract's `visibility_delay`, for nodes with an id too.
#[test]
fn a_young_node_is_not_deleted() {
    let node = NodeView {
        created: at(-57),
        ..lost("n1")
    };
    for id in ["", "mock://n1"] {
        let node = NodeView {
            provider_id: id.into(),
            ..node.clone()
        };
        let mut rig = Rig::quick();
        rig.check(0, &node);
        assert_eq!(
            rig.answered(1, &node, &GONE),
            LifecycleDecision {
                action: LifecycleAction::Withhold(
                    Measure::Deletion,
                    Withheld::Young { until: at(3) }
                ),
                next: Check::At(at(3))
            }
        );
        assert_eq!(rig.check(3, &node), Check::Ask);
        let action = rig.answered(3, &node, &GONE).action;
        assert!(
            matches!(action, LifecycleAction::Delete(_)),
            "{id:?} {action:?}"
        );
    }
}

/// The node is watched, and so grows older, whatever the clock says.
#[test]
fn a_clock_that_is_behind_keeps_no_node_young_for_longer_than_the_delay() {
    let mut rig = Rig::quick();
    rig.clock_behind = Duration::from_mins(87);
    let node = NodeView {
        created: at(-2),
        ..lost("n1")
    };
    assert_eq!(rig.check(0, &node), Check::At(at(60)));
    // The clock is put right, and the one before it is forgotten.
    rig.clock_behind = Duration::ZERO;
    assert_eq!(rig.check(60, &node), Check::Ask);
    assert_eq!(rig.answered(60, &node, &GONE).action, deletion());
    // Nor does it make a node old.
    let young = NodeView {
        created: at(99),
        ..lost("n2")
    };
    rig.clock_behind = Duration::from_mins(87);
    assert_eq!(rig.check(100, &young), Check::At(at(160)));
    let action = rig.answered(159, &young, &GONE).action;
    assert_eq!(
        action,
        LifecycleAction::Withhold(Measure::Deletion, Withheld::Young { until: at(160) })
    );
}

/// No deletion is sent on a contradiction, nor while the provider says that it is not well.
#[test]
fn a_last_look_before_the_deletion_is_sent_may_still_withhold_it() {
    let mut rig = Rig::new(DeletionLimits::default());
    let node = lost("n1");
    rig.check(0, &node);
    rig.answered(1, &node, &GONE);
    assert_eq!(rig.answered(6, &node, &GONE).action, deletion());
    let look = |rig: &mut Rig, trouble: Option<&str>| {
        let trouble = trouble.map(Into::into);
        rig.lifecycle.last_look(&node, Measure::Deletion, trouble)
    };
    let unwell = Withheld::ProviderNotReady {
        reason: "degraded: no credentials".into(),
    };
    assert_eq!(look(&mut rig, None), Ok(()));
    let trouble = Some("degraded: no credentials");
    assert_eq!(look(&mut rig, trouble), Err(unwell));
    // An answer to the other loop came in the meantime.
    let lookup = found(&node, PowerState::Running);
    rig.lifecycle.observed(at(7), &node, Some(&lookup));
    let why = look(&mut rig, None).unwrap_err();
    assert_eq!(why.as_str(), "contradicted");
}

/// Another loop's answers speak about the provider.
#[test]
fn answers_to_the_cloud_node_loop_count_for_and_against_the_provider() {
    let mut rig = Rig::new(DeletionLimits::default());
    let (absent, alive) = (lost("n1"), ready(&lost("n2")));
    let count = |rig: &mut Rig| {
        let counts = rig.lifecycle.counts(at(9), 100);
        (counts.absent, counts.absent_while_ready)
    };
    rig.check(0, &absent);
    rig.answered(0, &absent, &GONE);
    assert_eq!(count(&mut rig), (1, 0));
    rig.lifecycle.observed(at(1), &alive, Some(&NOT_SEEN));
    rig.lifecycle.observed(at(1), &lost("n3"), Some(&GONE));
    assert_eq!(count(&mut rig), (1, 1));
    // It counts until the same was said again.
    rig.lifecycle
        .observed(at(2), &absent, Some(&found(&absent, PowerState::Running)));
    assert_eq!(count(&mut rig), (1, 1));
    // Another provider's instance is no sign of this one.
    rig.lifecycle
        .observed(at(2), &alive, Some(&found(&absent, PowerState::Running)));
    rig.lifecycle.observed(at(2), &alive, Some(&not_managed()));
    assert_eq!(count(&mut rig), (1, 1));
    rig.lifecycle
        .observed(at(3), &alive, Some(&found(&alive, PowerState::Running)));
    assert_eq!(count(&mut rig), (1, 0));
    // A ready node is never deleted, whatever is said of it.
    assert_eq!(rig.check(4, &alive), READY);
}

/// A changed Ready condition is the sign of a machine, though the node was never seen ready.
#[test]
fn an_absence_before_the_kubelet_was_heard_of_is_not_the_first_of_two() {
    for (between, since) in [(Ready::False, 4), (Ready::Unknown, 4)] {
        let mut rig = Rig::new(DeletionLimits::default());
        let node = lost("n1");
        rig.check(0, &node);
        rig.answered(1, &node, &GONE);
        let heard = NodeView {
            ready: between,
            ready_since: Some(at(since)),
            ..node.clone()
        };
        assert_eq!(rig.check(6, &heard), Check::Ask);
        let action = rig.answered(6, &heard, &GONE).action;
        assert!(
            matches!(
                action,
                LifecycleAction::Withhold(
                    Measure::Deletion,
                    Withheld::Refused(DeletionRefusal::LookAgain { .. })
                )
            ),
            "{action:?}"
        );
        assert_eq!(rig.check(11, &heard), Check::Ask);
        assert_eq!(rig.answered(11, &heard, &GONE).action, deletion());
    }
}

/// From 1.38 on its volumes are detached at once.
#[test]
fn a_node_with_volumes_in_use_needs_a_third_answer_a_minute_after_the_first() {
    let node = NodeView {
        has_volumes_in_use: true,
        ..lost("n1")
    };
    let mut rig = Rig::new(DeletionLimits::default());
    rig.check(0, &node);
    let again = |seconds| {
        LifecycleAction::Withhold(
            Measure::Deletion,
            Withheld::Refused(DeletionRefusal::LookAgain { at: at(seconds) }),
        )
    };
    assert_eq!(rig.answered(1, &node, &GONE).action, again(6));
    assert_eq!(rig.answered(6, &node, &GONE).action, again(11));
    assert_eq!(rig.answered(11, &node, &GONE).action, again(61));
    assert_eq!(rig.answered(60, &node, &GONE).action, again(61));
    assert_eq!(rig.answered(61, &node, &GONE).action, deletion());
    // The third is needed however late it is.
    let mut rig = Rig::new(DeletionLimits::default());
    rig.check(0, &node);
    rig.answered(1, &node, &GONE);
    assert_eq!(rig.answered(100, &node, &GONE).action, again(105));
    assert_eq!(rig.answered(105, &node, &GONE).action, deletion());
}

/// It more likely has another name than the cloud knows: a kubelet does not register again by itself.
#[test]
fn a_node_never_found_is_deleted_only_after_15_minutes_of_silence_and_says_what_was_asked() {
    let joining = NodeView {
        provider_id: "".into(),
        taints: taints("node.cloudprovider.kubernetes.io/uninitialized:NoSchedule"),
        ..lost("n4")
    };
    let question = || no_instance(&joining);
    let never = |until| {
        LifecycleAction::Withhold(
            Measure::Deletion,
            Withheld::NeverFound {
                question: question(),
                until,
            },
        )
    };
    let mut rig = Rig::new(DeletionLimits::default());
    let reports = NodeView {
        ready: Ready::False,
        ..joining.clone()
    };
    for seconds in [0, 10, 2_000] {
        rig.check(seconds, &reports);
        assert_eq!(rig.answered(seconds, &reports, &GONE).action, never(None));
    }
    rig.check(2_001, &joining);
    let first = rig.answered(2_001, &joining, &GONE).action;
    assert_eq!(first, never(Some(at(2_006))));
    for seconds in [2_006, 2_900] {
        let action = rig.answered(seconds, &joining, &GONE).action;
        assert_eq!(action, never(Some(at(2_901))));
    }
    let LifecycleAction::Delete(deletion) = rig.answered(2_901, &joining, &GONE).action else {
        panic!("15 min are over");
    };
    let event = EventContent::deleting_node("n4", deletion.never_found.as_deref());
    assert_eq!(
        &*event.message,
        "Deleting node n4 because it does not exist in the cloud provider: no instance named \"n4\" (compare the Node's \
         name with the cloud's) was ever found"
    );
    // Initialised, or found by whichever loop under this UID.
    for (id, tainted, without_ids, found_before, never_found) in [
        ("mock://n4", false, false, false, false),
        ("mock://n4", true, false, false, true),
        ("", false, false, false, true),
        ("", false, true, false, false),
        ("", true, true, false, true),
        ("", true, false, true, false),
    ] {
        let node = NodeView {
            provider_id: id.into(),
            taints: if tainted {
                joining.taints.clone()
            } else {
                [].into()
            },
            ..joining.clone()
        };
        let mut rig = Rig::quick();
        rig.without_provider_id = without_ids;
        if found_before {
            let lookup = found(&node, PowerState::Running);
            rig.lifecycle.observed(at(0), &node, Some(&lookup));
        }
        rig.check(0, &node);
        let action = rig.answered(1, &node, &GONE).action;
        let is_deleted = matches!(action, LifecycleAction::Delete(_));
        assert_eq!(!is_deleted, never_found, "{id:?} {tainted} {action:?}");
    }
}

/// Confirmed in one incident, they came back, and in the next they are withheld again.
#[test]
fn a_confirmation_is_spent_by_ready_and_the_next_absence_is_withheld_again() {
    let mut rig = Rig::new(DeletionLimits::default());
    rig.nodes = 8;
    let nodes: Vec<NodeView> = (0..8).map(|n| lost(&format!("n{n}"))).collect();
    let says = |rig: &mut Rig, seconds, nodes: &[NodeView]| -> Vec<LifecycleAction> {
        let mut actions = Vec::new();
        for node in nodes {
            rig.check(seconds, node);
            actions.push(rig.answered(seconds, node, &GONE).action);
        }
        actions
    };
    says(&mut rig, 0, &nodes);
    says(&mut rig, 5, &nodes);
    let labelled: Vec<_> = nodes
        .iter()
        .map(|node| labelled(node, LABEL_CONFIRM_DELETION))
        .collect();
    for node in &labelled {
        assert_eq!(rig.check(7, &ready(node)), READY);
    }
    let again: Vec<_> = labelled
        .iter()
        .map(|node| NodeView {
            ready_since: Some(at(9_000)),
            ..node.clone()
        })
        .collect();
    says(&mut rig, 9_001, &again);
    for action in says(&mut rig, 9_006, &again) {
        let withheld = Withheld::Refused(DeletionRefusal::Majority);
        assert_eq!(
            action,
            LifecycleAction::Withhold(Measure::Deletion, withheld)
        );
    }
    // The annotation of the Lease confirms what is withheld now, and each of these is checked at once.
    assert_eq!(rig.lifecycle.confirm_withheld(at(9_007), 7), Err(8));
    let names = rig.lifecycle.confirm_withheld(at(9_007), 8).unwrap();
    assert_eq!(names.len(), 8);
    assert_eq!(rig.check(9_007, &again[3]), Check::Ask);
    for action in says(&mut rig, 9_008, &again) {
        assert!(
            matches!(&action, LifecycleAction::Delete(deletion) if deletion.release == Release::Operator),
            "{action:?}"
        );
    }
}

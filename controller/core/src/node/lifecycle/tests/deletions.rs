//! When a node is deleted.

use super::*;

/// L-5: certainty alone deletes.
#[test]
fn l5_only_a_confirmed_absence_deletes() {
    let node = lost("n1");
    assert_eq!(verdict(&node, &GONE), deletion(&node));
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

/// Q-38, --node-deletion-confirm.
#[test]
fn q38_it_takes_two_answers_by_default() {
    let mut rig = Rig::new(DeletionLimits::default());
    let node = lost("n1");
    assert_eq!(rig.check(0, &node), Check::Ask);
    let again =
        LifecycleAction::Withhold(Withheld::Refused(DeletionRefusal::LookAgain { at: at(6) }));
    assert_eq!(
        rig.answered(1, &node, &GONE),
        LifecycleDecision {
            action: again,
            next: Check::At(at(6))
        }
    );
    assert_eq!(rig.check(6, &node), Check::Ask);
    assert_eq!(
        rig.answered(6, &node, &GONE),
        LifecycleDecision {
            action: deletion(&node),
            next: Check::At(at(11))
        }
    );
}

/// an id may have come, or a change that cannot be decoded.
#[test]
fn q4_a_deletion_presumes_uid_and_version() {
    for provider_id in ["", "mock://n1"] {
        let node = NodeView {
            provider_id: provider_id.into(),
            ..lost("n1")
        };
        let expected = Deletion {
            uid: "uid-n1".into(),
            resource_version: "7".into(),
            release: Release::WithinLimit,
        };
        assert_eq!(verdict(&node, &GONE), LifecycleAction::Delete(expected));
    }
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
                None => LifecycleAction::Withhold(Withheld::NotOwned),
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
                action: LifecycleAction::Withhold(Withheld::Young { until: at(3) }),
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
    assert_eq!(rig.answered(60, &node, &GONE).action, deletion(&node));
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
        LifecycleAction::Withhold(Withheld::Young { until: at(160) })
    );
}

#[test]
fn deletions_above_the_limit_wait_until_an_operator_confirms() {
    let mut rig = Rig::quick();
    let nodes: Vec<NodeView> = (0..60).map(|n| lost(&format!("n{n}"))).collect();
    let says = |rig: &mut Rig, seconds, node: &NodeView| {
        assert_eq!(rig.check(seconds, node), Check::Ask);
        rig.answered(seconds, node, &GONE)
    };
    for node in &nodes[..10] {
        assert_eq!(says(&mut rig, 0, node).action, deletion(node));
        rig.lifecycle.removed(at(0), &node.name);
        rig.nodes -= 1;
    }
    let limited = Withheld::Refused(DeletionRefusal::LimitExceeded { until: at(300) });
    let verdict = says(&mut rig, 0, &nodes[10]);
    assert_eq!(verdict.action, LifecycleAction::Withhold(limited));
    // Checked on as usual: it may come back.
    assert_eq!(verdict.next, Check::At(at(5)));

    for node in &nodes[11..] {
        says(&mut rig, 1, node);
    }
    let held = Withheld::Refused(DeletionRefusal::AwaitsOperator(Doubt::Majority));
    let verdict = says(&mut rig, 6, &nodes[11]);
    assert_eq!(verdict.action, LifecycleAction::Withhold(held));
    let confirmed = labelled(&nodes[12], LABEL_CONFIRM_DELETION);
    assert_eq!(
        says(&mut rig, 7, &confirmed).action,
        LifecycleAction::Delete(Deletion {
            uid: "uid-n12".into(),
            resource_version: "7".into(),
            release: Release::Operator,
        })
    );
}

/// The second look is taken when it is due, not at the next check of a long-lost node.
#[test]
fn the_second_look_is_on_time() {
    let mut rig = Rig::new(DeletionLimits {
        confirm: 1,
        burst: 0,
        fraction: 0.0,
        window: Duration::from_secs(33),
        ..DeletionLimits::default()
    });
    let node = lost("n1");
    let exists = found(&lost("n2"), PowerState::Running);
    rig.lifecycle.observed(at(1), &ready(&lost("n2")), &exists);
    let mut looks = Vec::new();
    let mut now = 0;
    loop {
        assert_eq!(rig.check(now, &node), Check::Ask);
        looks.push(now);
        let verdict = rig.answered(now, &node, &GONE);
        if let LifecycleAction::Delete(deletion) = verdict.action {
            assert_eq!(deletion.release, Release::SecondLook);
            break;
        }
        let Check::At(next) = verdict.next else {
            panic!("{verdict:?}");
        };
        now = next.as_second() - at(0).as_second();
    }
    assert_eq!(looks, [0, 5, 10, 15, 20, 25, 30, 33]);
}

/// No deletion is sent on a contradiction, nor while the provider says that it is not well.
#[test]
fn a_last_look_before_the_deletion_is_sent_may_still_withhold_it() {
    let mut rig = Rig::new(DeletionLimits::default());
    let node = lost("n1");
    rig.check(0, &node);
    rig.answered(1, &node, &GONE);
    let LifecycleAction::Delete(deletion) = rig.answered(6, &node, &GONE).action else {
        panic!("two answers are enough");
    };
    let by_operator = Deletion {
        release: Release::Operator,
        ..deletion.clone()
    };
    let look = |rig: &Rig, deletion, trouble: Option<&str>| {
        rig.lifecycle
            .last_look(&node, deletion, trouble.map(Into::into))
    };
    let unwell = Withheld::ProviderNotReady {
        reason: "degraded: no credentials".into(),
    };
    assert_eq!(look(&rig, &deletion, None), Ok(()));
    let trouble = Some("degraded: no credentials");
    assert_eq!(look(&rig, &deletion, trouble), Err(unwell));
    assert_eq!(look(&rig, &by_operator, trouble), Ok(()));
    // An answer to the other loop came in the meantime.
    let lookup = found(&node, PowerState::Running);
    rig.lifecycle.observed(at(7), &node, &lookup);
    let why = look(&rig, &deletion, None).unwrap_err();
    assert_eq!(why.as_str(), "contradicted");
    assert_eq!(look(&rig, &by_operator, None), Ok(()));
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
    rig.lifecycle.observed(at(1), &alive, &NOT_SEEN);
    rig.lifecycle.observed(at(1), &lost("n3"), &GONE);
    assert_eq!(count(&mut rig), (1, 1));
    // It counts until the same was said again.
    rig.lifecycle
        .observed(at(2), &absent, &found(&absent, PowerState::Running));
    assert_eq!(count(&mut rig), (1, 1));
    // Another provider's instance is no sign of this one.
    rig.lifecycle
        .observed(at(2), &alive, &found(&absent, PowerState::Running));
    rig.lifecycle.observed(at(2), &alive, &not_managed());
    assert_eq!(count(&mut rig), (1, 1));
    rig.lifecycle
        .observed(at(3), &alive, &found(&alive, PowerState::Running));
    assert_eq!(count(&mut rig), (1, 0));
    // A ready node is never deleted, whatever is said of it.
    assert_eq!(rig.check(4, &alive), READY);
}

#[test]
fn reasons_are_sentences_and_labels() {
    for (withheld, label, text) in [
        (
            Withheld::NotOwned,
            "not_owned",
            "it has no provider ID, and either --node-selector does not select it or the cluster \
             has nodes of another provider",
        ),
        (
            Withheld::Young { until: at(60) },
            "young",
            "it is so young that its instance may not be visible before 2026-11-21T10:01:00Z",
        ),
        (
            Withheld::ProviderNotReady {
                reason: "degraded: no credentials".into(),
            },
            "provider_not_ready",
            "the provider is not READY right before the deletion (degraded: no credentials); the node stays until \
             it is, or an operator labels it with outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true",
        ),
        (
            Withheld::Refused(DeletionRefusal::Off),
            "off",
            "deletion is switched off (--node-deletion-enabled=false)",
        ),
    ] {
        assert_eq!((withheld.as_str(), &*withheld.to_string()), (label, text));
    }
    for (doubt, label) in [
        (Inconclusive::NoAnswer, "no_answer"),
        (Inconclusive::NotConfirmed, "not_confirmed"),
        (Inconclusive::NodeChanged, "node_changed"),
        (
            Inconclusive::AnotherInstance {
                instance_id: "x".into(),
            },
            "another_instance",
        ),
    ] {
        assert_eq!(doubt.as_str(), label);
        assert!(!doubt.to_string().is_empty());
    }
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
                LifecycleAction::Withhold(Withheld::Refused(DeletionRefusal::LookAgain { .. }))
            ),
            "{action:?}"
        );
        assert_eq!(rig.check(11, &heard), Check::Ask);
        assert_eq!(rig.answered(11, &heard, &GONE).action, deletion(&heard));
    }
}

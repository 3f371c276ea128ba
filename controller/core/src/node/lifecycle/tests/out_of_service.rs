use super::*;
use crate::node::{
    EFFECT_NO_EXECUTE, LABEL_OUT_OF_SERVICE_AFTER, OUT_OF_SERVICE_VALUE, TAINT_OUT_OF_SERVICE,
};

const MINUTE: i64 = 60;
/// The flag in these tests.
const AFTER: i64 = 10 * MINUTE;

/// A node that has the first taint of a stopped machine.
fn stopped(name: &str) -> NodeView {
    tainted(&lost(name), "shutdown:NoSchedule")
}

fn rig() -> Rig {
    Rig {
        out_of_service_after: Duration::from_secs(AFTER as u64),
        ..Rig::new(DeletionLimits::default())
    }
}

fn shutdown(node: &NodeView) -> Lookup {
    found(node, PowerState::Shutdown)
}

impl Rig {
    fn says_stopped(&mut self, seconds: i64, node: &NodeView) -> LifecycleAction {
        self.answered(seconds, node, &shutdown(node)).action
    }
}

fn not_yet(seconds: i64) -> LifecycleAction {
    let at = at(seconds);
    kept(DeletionRefusal::LookAgain { at }.into())
}

fn kept(why: Withheld) -> LifecycleAction {
    LifecycleAction::Withhold(Measure::OutOfService, why)
}

fn out_of_service() -> LifecycleAction {
    let taint = Taint::new(
        TAINT_OUT_OF_SERVICE,
        OUT_OF_SERVICE_VALUE,
        EFFECT_NO_EXECUTE,
    );
    LifecycleAction::TakeOutOfService(NodeChange {
        add_taint: Some(taint),
        only_this_version: true,
        ..NodeChange::default()
    })
}

#[test]
fn a_machine_that_was_stopped_for_so_long_takes_its_node_out_of_service() {
    let node = stopped("n1");
    let mut rig = rig();
    assert_eq!(rig.check(0, &node), Check::Ask);
    assert_eq!(rig.says_stopped(1, &node), not_yet(6));
    let decision = rig.answered(10, &node, &shutdown(&node));
    assert_eq!(decision.action, not_yet(1 + AFTER));
    assert_eq!(rig.says_stopped(AFTER, &node), not_yet(1 + AFTER));
    // Otherwise the next look would be up to a minute later.
    assert_eq!(
        rig.answered(AFTER, &node, &shutdown(&node)).next,
        Check::At(at(1 + AFTER))
    );
    let decision = rig.answered(1 + AFTER, &node, &shutdown(&node));
    assert_eq!(decision.action, out_of_service());
    // Should the write fail.
    assert_eq!(decision.next, Check::At(at(6 + AFTER)));
}

#[test]
fn a_short_time_needs_two_answers_a_monitor_period_apart_all_the_same() {
    let node = stopped("n1");
    let mut rig = Rig {
        out_of_service_after: Duration::from_nanos(1),
        ..Rig::quick()
    };
    assert_eq!(rig.says_stopped(1, &node), not_yet(6));
    assert_eq!(rig.says_stopped(2, &node), not_yet(6));
    assert_eq!(rig.says_stopped(6, &node), out_of_service());
}

type Event<'a> = Box<dyn Fn(&mut Rig) + 'a>;

/// One event between two stops that are far enough apart.
#[test]
fn whatever_contradicts_a_stop_begins_the_time_again() {
    let node = stopped("n1");
    let running = found(&node, PowerState::Running);
    let answers = [
        found(&node, PowerState::Pending),
        running.clone(),
        found(&node, PowerState::Terminating),
        found(&stopped("another"), PowerState::Shutdown),
        GONE,
        NOT_SEEN,
        not_managed(),
    ];
    let mut events: Vec<(String, Event<'_>)> = vec![
        (
            "no answer".into(),
            Box::new(|rig| drop(rig.failed(100, &node))),
        ),
        (
            "no answer to another loop".into(),
            Box::new(|rig| rig.lifecycle.observed(at(100), &node, None)),
        ),
        (
            "a kubelet that reports".into(),
            Box::new(|rig| {
                let reporting = NodeView {
                    ready: Ready::False,
                    ready_since: Some(at(90)),
                    ..node.clone()
                };
                assert_eq!(rig.says_stopped(100, &reporting), LifecycleAction::Keep);
            }),
        ),
        (
            "a kubelet that has reported".into(),
            Box::new(|rig| {
                let again = NodeView {
                    ready_since: Some(at(90)),
                    ..node.clone()
                };
                drop(rig.check(100, &again));
            }),
        ),
        (
            "ready".into(),
            Box::new(|rig| drop(rig.check(100, &ready(&node)))),
        ),
        (
            "paused".into(),
            Box::new(|rig| drop(rig.check(100, &labelled(&node, LABEL_PAUSED)))),
        ),
        (
            "another restart".into(),
            Box::new(|rig| {
                rig.lifecycle = Lifecycle::new(DeletionLimits::default());
                rig.finds_other(100_000);
            }),
        ),
    ];
    for lookup in &answers {
        let name = format!("another loop: {lookup:?}");
        let node = &node;
        events.push((
            name,
            Box::new(move |rig| rig.lifecycle.observed(at(100), node, Some(lookup))),
        ));
    }
    // The Node is left alone until it is asked about again.
    for lookup in answers.iter().filter(|lookup| **lookup != not_managed()) {
        let name = format!("{lookup:?}");
        let node = &node;
        events.push((
            name,
            Box::new(move |rig| drop(rig.answered(100, node, lookup))),
        ));
    }
    for (name, event) in events {
        let mut rig = rig();
        rig.says_stopped(1, &node);
        rig.says_stopped(10, &node);
        event(&mut rig);
        let action = rig.says_stopped(1 + AFTER, &node);
        assert!(
            matches!(
                action,
                LifecycleAction::Withhold(
                    Measure::OutOfService,
                    Withheld::Refused(
                        DeletionRefusal::LookAgain { .. } | DeletionRefusal::Contradicted { .. }
                    )
                )
            ),
            "{name}: {action:?}"
        );
        rig.says_stopped(10 + AFTER, &node);
        assert_eq!(
            rig.says_stopped(1 + 2 * AFTER, &node),
            out_of_service(),
            "{name}"
        );
    }
}

/// Views without it have no power state.
#[test]
fn a_power_state_that_is_not_known_counts_for_nothing() {
    let node = stopped("n1");
    let unknown = found(&node, PowerState::Unknown);
    let mut rig = rig();
    rig.says_stopped(1, &node);
    rig.lifecycle.observed(at(50), &node, Some(&unknown));
    assert_eq!(
        rig.answered(60, &node, &unknown).action,
        LifecycleAction::Keep
    );
    rig.says_stopped(100, &node);
    assert_eq!(rig.says_stopped(1 + AFTER, &node), out_of_service());
}

/// An answer that was on its way while the kubelet came back and went.
#[test]
fn an_answer_about_the_node_before_it_was_heard_does_not_count() {
    let node = stopped("n1");
    let before = NodeView {
        ready_since: Some(at(-100)),
        ..node.clone()
    };
    let mut rig = rig();
    rig.says_stopped(1, &node);
    rig.says_stopped(10, &node);
    let late = rig.answered_late(1 + AFTER, &node, &before, &shutdown(&node));
    assert_eq!(late.action, LifecycleAction::Keep);
    assert_eq!(rig.says_stopped(2 + AFTER, &node), not_yet(7 + AFTER));
}

#[test]
fn a_label_says_otherwise_for_one_node() {
    let with = |value: &str| NodeView {
        labels: map(&[(LABEL_OUT_OF_SERVICE_AFTER, value)]),
        ..stopped("n1")
    };
    for (flag, label, expected) in [
        (AFTER, "1m", Some(MINUTE)),
        (AFTER, "1h30m", Some(90 * MINUTE)),
        (0, "1m", Some(MINUTE)),
        (AFTER, "0", None),
        (AFTER, "0s", None),
    ] {
        let node = with(label);
        let mut rig = Rig {
            out_of_service_after: Duration::from_secs(flag as u64),
            ..rig()
        };
        rig.says_stopped(1, &node);
        let action = rig.says_stopped(10, &node);
        let after = expected.map(|after| not_yet(1 + after));
        assert_eq!(
            action,
            after.unwrap_or(LifecycleAction::Keep),
            "{flag} {label}"
        );
        if let Some(after) = expected {
            assert_eq!(
                rig.says_stopped(1 + after, &node),
                out_of_service(),
                "{flag} {label}"
            );
        }
    }
    for wrong in ["", "true", "10", "-5m", "5 days", "9999999999999999h"] {
        let node = with(wrong);
        let mut rig = rig();
        for seconds in [1, 10, 2 * AFTER] {
            let LifecycleAction::Withhold(_, why) = rig.says_stopped(seconds, &node) else {
                panic!("{wrong}");
            };
            assert_eq!(
                why.to_string(),
                format!(
                    "its label outrigger.dev.node-restriction.kubernetes.io/out-of-service-after is {wrong:?}, which is \
                     no duration; write it as 10m or 1h30m, or 0 for never"
                )
            );
        }
    }
}

#[test]
fn a_node_that_is_out_of_service_stays_so_and_counts_as_stopped() {
    let node = stopped("n1");
    let mut rig = rig();
    rig.says_stopped(1, &node);
    rig.says_stopped(1 + AFTER, &node);
    rig.lifecycle
        .taken_out_of_service(at(1 + AFTER), &node.name);
    assert_eq!(rig.lifecycle.stop_counts(at(2 + AFTER), 100).deleted, 1);
    rig.says_stopped(
        3 + AFTER,
        &tainted(
            &node,
            &format!("shutdown:NoSchedule {TAINT_OUT_OF_SERVICE}={OUT_OF_SERVICE_VALUE}:NoExecute"),
        ),
    );
    // Once.
    let counts = rig.lifecycle.stop_counts(at(3 + AFTER), 100);
    assert_eq!((counts.absent, counts.deleted), (0, 1));
    for taint in [
        format!("{TAINT_OUT_OF_SERVICE}={OUT_OF_SERVICE_VALUE}:NoExecute"),
        format!("{TAINT_OUT_OF_SERVICE}=nodeshutdown:NoExecute"),
        format!("{TAINT_OUT_OF_SERVICE}:NoSchedule"),
    ] {
        let node = tainted(&node, &format!("shutdown:NoSchedule {taint}"));
        for seconds in [2 + AFTER, 2 * AFTER, 3 * AFTER] {
            assert_eq!(
                rig.says_stopped(seconds, &node),
                LifecycleAction::Keep,
                "{taint}"
            );
        }
    }
    // It is stopped still.
    let counts = rig.lifecycle.stop_counts(at(3 * AFTER), 100);
    assert_eq!((counts.absent, counts.deleted), (1, 0));
}

/// In one write.
#[test]
fn a_ready_node_loses_the_taint_that_the_controller_added_and_no_other() {
    let ours = format!("{TAINT_OUT_OF_SERVICE}={OUT_OF_SERVICE_VALUE}:NoExecute");
    let theirs = format!("{TAINT_OUT_OF_SERVICE}=nodeshutdown:NoExecute");
    for (taints, removals) in [
        (format!("shutdown:NoSchedule {ours}"), &[0, 1][..]),
        (format!("{ours} other:NoExecute"), &[0]),
        (format!("{theirs} shutdown:NoSchedule"), &[1]),
        (theirs.clone(), &[]),
    ] {
        let node = ready(&tainted(&lost("n1"), &taints));
        assert_eq!(node.has_taint_of_stop(), !removals.is_empty(), "{taints}");
        let expected = if removals.is_empty() {
            READY
        } else {
            let removals = removals.iter().map(|at: &usize| node.taints[*at].clone());
            Check::RemoveTaints(NodeChange {
                remove_taints: removals.collect(),
                ..NodeChange::default()
            })
        };
        assert_eq!(rig().check(0, &node), expected, "{taints}");
    }
}

/// So many nodes whose machines are stopped all the time, and the last decisions about each.
fn fleet(rig: &mut Rig, count: usize, last: i64) -> Vec<LifecycleAction> {
    let nodes: Vec<_> = (0..count).map(|n| stopped(&format!("n{n}"))).collect();
    for seconds in [1, 10] {
        for node in &nodes {
            rig.says_stopped(seconds, node);
        }
    }
    nodes
        .iter()
        .map(|node| rig.says_stopped(last, node))
        .collect()
}

#[test]
fn if_more_than_half_are_stopped_none_is_taken_out_in_a_cluster_of_three_too() {
    for (nodes, stopped, taken) in [
        (1, 1, 0),
        (2, 2, 0),
        (3, 3, 0),
        (3, 2, 0),
        (2, 1, 1),
        (3, 1, 1),
    ] {
        let mut rig = Rig { nodes, ..rig() };
        let actions = fleet(&mut rig, stopped, 1 + AFTER);
        let out =
            |action: &&LifecycleAction| matches!(action, LifecycleAction::TakeOutOfService(_));
        assert_eq!(
            actions.iter().filter(out).count(),
            taken,
            "{stopped} of {nodes}"
        );
    }
    // The same one after the other.
    let mut rig = Rig { nodes: 3, ..rig() };
    fleet(&mut rig, 1, 1 + AFTER);
    let taint = format!("shutdown:NoSchedule {TAINT_OUT_OF_SERVICE}:NoExecute");
    let first = tainted(&stopped("n0"), &taint);
    rig.lifecycle
        .taken_out_of_service(at(1 + AFTER), &first.name);
    let second = stopped("second");
    for seconds in [2 + AFTER, 10 + AFTER, 2 + 2 * AFTER] {
        rig.says_stopped(seconds, &first);
        let action = rig.says_stopped(seconds, &second);
        assert!(
            matches!(action, LifecycleAction::Withhold(..)),
            "{action:?}"
        );
    }
}

/// The provider may have lost its memory of which machines run.
#[test]
fn no_node_is_taken_out_before_another_is_found_that_runs() {
    let mut rig = Rig {
        out_of_service_after: Duration::from_secs(AFTER as u64),
        ..Rig::lonely(DeletionLimits::default())
    };
    let node = stopped("n1");
    assert!(!rig.lifecycle.needs_other(at(1), &node));
    rig.says_stopped(1, &node);
    assert!(rig.lifecycle.needs_other(at(10), &node));
    rig.says_stopped(10, &node);
    assert_eq!(
        rig.says_stopped(1 + AFTER, &node),
        kept(DeletionRefusal::FindsNone.into())
    );
    rig.finds_other(2 + AFTER);
    assert_eq!(rig.says_stopped(3 + AFTER, &node), out_of_service());
}

/// A label keeps them in service, or their kubelet has reported since, or they are out of service: the cloud says of most
/// nodes that they are stopped, all the same.
#[test]
fn stopped_nodes_that_are_kept_in_service_count_too() {
    let never = |node: NodeView| NodeView {
        labels: map(&[(LABEL_OUT_OF_SERVICE_AFTER, "0")]),
        ..node
    };
    let unreadable = |node: NodeView| NodeView {
        labels: map(&[(LABEL_OUT_OF_SERVICE_AFTER, "soon")]),
        ..node
    };
    let reporting = |node: NodeView| NodeView {
        ready: Ready::False,
        ..node
    };
    let by_hand = |node: NodeView| {
        let taint = format!("shutdown:NoSchedule {TAINT_OUT_OF_SERVICE}=nodeshutdown:NoExecute");
        tainted(&node, &taint)
    };
    let kinds: [&dyn Fn(NodeView) -> NodeView; 4] = [&never, &unreadable, &reporting, &by_hand];
    for (which, kind) in kinds.into_iter().enumerate() {
        let mut rig = Rig { nodes: 10, ..rig() };
        for n in 0..5 {
            let node = kind(stopped(&format!("kept{n}")));
            for seconds in [1, 10, AFTER] {
                rig.says_stopped(seconds, &node);
            }
        }
        let [action] = &fleet(&mut rig, 1, 1 + AFTER)[..] else {
            panic!();
        };
        assert_eq!(*action, kept(DeletionRefusal::Majority.into()), "{which}");
        // They are started: none is stopped any more but this one.
        for n in 0..5 {
            let node = kind(stopped(&format!("kept{n}")));
            rig.answered(2 + AFTER, &node, &found(&node, PowerState::Running));
        }
        assert_eq!(
            rig.lifecycle.stop_counts(at(2 + AFTER), 10).absent,
            1,
            "{which}"
        );
    }
}

/// The cloud has lost its memory of many other machines.
#[test]
fn no_node_is_taken_out_of_service_while_deletions_are_limited() {
    let mut rig = rig();
    for n in 0..11 {
        let node = lost(&format!("gone{n}"));
        rig.answered(1, &node, &GONE);
    }
    let [action] = &fleet(&mut rig, 1, 1 + AFTER)[..] else {
        panic!();
    };
    assert_eq!(*action, kept(Withheld::DeletionsLimited));
}

#[test]
fn a_node_that_may_be_another_providers_stays() {
    let mut rig = Rig {
        foreign_prefix_seen: true,
        ..rig()
    };
    let node = NodeView {
        provider_id: "".into(),
        ..stopped("n1")
    };
    for seconds in [1, 10, 2 * AFTER] {
        assert_eq!(rig.says_stopped(seconds, &node), kept(Withheld::NotOwned));
    }
}

#[test]
fn a_last_look_sees_a_provider_in_trouble_and_what_another_loop_was_told() {
    let node = stopped("n1");
    let mut rig = rig();
    fleet(&mut rig, 2, 1 + AFTER);
    let look = |rig: &mut Rig, trouble: Option<&str>| {
        let trouble = trouble.map(Into::into);
        let measure = Measure::OutOfService;
        rig.lifecycle.last_look(&node, measure, trouble)
    };
    assert_eq!(look(&mut rig, None), Ok(()));
    let reason = "DEGRADED".into();
    assert_eq!(
        look(&mut rig, Some("DEGRADED")),
        Err(Withheld::ProviderNotReady { reason })
    );
    let running = found(&node, PowerState::Running);
    rig.lifecycle.observed(at(2 + AFTER), &node, Some(&running));
    let why = look(&mut rig, None).unwrap_err();
    assert_eq!(why.as_str(), "contradicted");
}

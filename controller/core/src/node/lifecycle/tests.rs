use std::time::Duration;

use jiff::{Timestamp, ToSpan};

use super::{
    Check, Deletion, Idle, Inconclusive, Lifecycle, LifecycleAction, LifecycleDecision,
    LifecycleFacts, Measure, Withheld,
};
use crate::{
    event::EventContent,
    fixture::{map, registered, taints},
    node::{
        EFFECT_NO_SCHEDULE, LABEL_CONFIRM_DELETION, LABEL_PAUSED, NodeView, Ready, TAINT_SHUTDOWN,
        Taint,
        change::NodeChange,
        deletion_limit::{DeletionLimits, DeletionRefusal, Release},
        instance::{Instance, Lookup, PowerState, no_instance},
        ownership::{NodeScope, Prefixes},
    },
    selector::Selector,
};

mod checks;
mod deletions;
mod out_of_service;

const GONE: Lookup = Lookup::Absent { confirmed: true };
const NOT_SEEN: Lookup = Lookup::Absent { confirmed: false };
const READY: Check = Check::Idle(Idle::Ready);

fn at(seconds: i64) -> Timestamp {
    "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap() + seconds.seconds()
}

/// A node of ours, an hour old, that is not ready any more.
fn lost(name: &str) -> NodeView {
    NodeView {
        provider_id: format!("mock://{name}").into(),
        created: at(-3_600),
        ready: Ready::Unknown,
        ready_since: Some(at(-1)),
        taints: [].into(),
        ..registered(name)
    }
}

fn ready(node: &NodeView) -> NodeView {
    NodeView {
        ready: Ready::True,
        ready_since: Some(at(3)),
        ..node.clone()
    }
}

fn labelled(node: &NodeView, key: &str) -> NodeView {
    NodeView {
        labels: map(&[(key, "true")]),
        ..node.clone()
    }
}

fn tainted(node: &NodeView, words: &str) -> NodeView {
    let key = |word: &str| match word.strip_prefix("shutdown") {
        Some(rest) => format!("{TAINT_SHUTDOWN}{rest}"),
        None => word.to_owned(),
    };
    let words: Vec<_> = words.split_whitespace().map(key).collect();
    NodeView {
        taints: taints(&words.join(" ")),
        ..node.clone()
    }
}

fn found(node: &NodeView, power_state: PowerState) -> Lookup {
    Lookup::Found(Box::new(Instance {
        provider_id: node.provider_id.clone(),
        power_state,
        ..Instance::default()
    }))
}

fn not_managed() -> Lookup {
    let reason = "on premises".into();
    Lookup::NotManaged { reason }
}

/// A loop with what it knows: another node is found, and runs.
struct Rig {
    lifecycle: Lifecycle,
    prefixes: Prefixes,
    selector: Option<Selector>,
    foreign_prefix_seen: bool,
    not_managed: bool,
    without_provider_id: bool,
    out_of_service_after: Duration,
    nodes: usize,
    /// How far the machine's clock is behind that of the API server.
    clock_behind: Duration,
}

impl Rig {
    fn new(limits: DeletionLimits) -> Self {
        let mut rig = Self::lonely(limits);
        rig.finds_other(100_000);
        rig
    }

    /// No node was found yet.
    fn lonely(limits: DeletionLimits) -> Self {
        Self {
            lifecycle: Lifecycle::new(limits),
            prefixes: Prefixes::new("mock", [""; 0]).unwrap(),
            selector: None,
            foreign_prefix_seen: false,
            not_managed: false,
            without_provider_id: true,
            out_of_service_after: Duration::ZERO,
            nodes: 100,
            clock_behind: Duration::ZERO,
        }
    }

    fn finds_other(&mut self, seconds: i64) {
        let other = ready(&lost("other"));
        let runs = found(&other, PowerState::Running);
        self.lifecycle
            .other_answered(at(seconds), &other, Some(&runs));
    }

    /// One answer is enough, as in most of these tests.
    fn quick() -> Self {
        Self::new(DeletionLimits {
            confirm: 1,
            ..DeletionLimits::default()
        })
    }

    fn with<T>(
        &mut self,
        seconds: i64,
        call: impl FnOnce(&mut Lifecycle, &LifecycleFacts<'_>) -> T,
    ) -> T {
        let facts = LifecycleFacts {
            scope: NodeScope {
                prefixes: &self.prefixes,
                selector: self.selector.as_ref(),
                foreign_prefix_seen: self.foreign_prefix_seen,
            },
            nodes: self.nodes,
            visibility_delay: Duration::from_mins(1),
            without_provider_id: self.without_provider_id,
            time_of_day: at(seconds) - self.clock_behind,
            out_of_service_after: self.out_of_service_after,
            not_managed: self.not_managed,
        };
        call(&mut self.lifecycle, &facts)
    }

    fn check(&mut self, seconds: i64, node: &NodeView) -> Check {
        self.with(seconds, |lifecycle, facts| {
            lifecycle.check(at(seconds), node, facts)
        })
    }

    fn answered(&mut self, seconds: i64, node: &NodeView, lookup: &Lookup) -> LifecycleDecision {
        self.answered_late(seconds, node, node, lookup)
    }

    fn answered_late(
        &mut self,
        seconds: i64,
        node: &NodeView,
        node_at_lookup: &NodeView,
        lookup: &Lookup,
    ) -> LifecycleDecision {
        self.with(seconds, |lifecycle, facts| {
            lifecycle.answered(at(seconds), node, node_at_lookup, Some(lookup), facts)
        })
    }

    fn failed(&mut self, seconds: i64, node: &NodeView) -> LifecycleDecision {
        self.with(seconds, |lifecycle, facts| {
            lifecycle.answered(at(seconds), node, node, None, facts)
        })
    }
}

/// The action after a first answer about `node`.
fn verdict(node: &NodeView, lookup: &Lookup) -> LifecycleAction {
    let mut rig = Rig::quick();
    assert_eq!(rig.check(0, node), Check::Ask);
    rig.answered(1, node, lookup).action
}

fn deletion() -> LifecycleAction {
    LifecycleAction::Delete(Deletion {
        release: Release::WithinLimit,
        never_found: None,
    })
}

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
        deletion()
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
    let LifecycleAction::Withhold(Measure::Deletion, Withheld::Refused(refusal)) = action else {
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

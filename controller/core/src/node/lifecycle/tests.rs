use std::time::Duration;

use jiff::{Timestamp, ToSpan};

use super::{
    Check, Deletion, Idle, InService, Inconclusive, Lifecycle, LifecycleAction, LifecycleDecision,
    LifecycleFacts, Withheld,
};
use crate::{
    event::EventContent,
    fixture::{map, registered, taints},
    node::{
        EFFECT_NO_SCHEDULE, LABEL_CONFIRM_DELETION, LABEL_PAUSED, NodeView, Ready, TAINT_SHUTDOWN,
        Taint,
        change::{NodeChange, TaintAddition, TaintRemoval},
        deletion_limit::{DeletionLimits, DeletionRefusal, Doubt, Release},
        instance::{AskedFor, Instance, Lookup, PowerState},
        ownership::{NodeScope, Prefixes},
    },
    selector::Selector,
};

mod checks;
mod deletions;
mod late;
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

fn deletion(node: &NodeView) -> LifecycleAction {
    LifecycleAction::Delete(Deletion {
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        release: Release::WithinLimit,
        never_found: None,
    })
}

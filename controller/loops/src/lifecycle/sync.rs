//! One Node: is it time to ask, what does the answer mean, when to ask again.
//!
//! A question about a Node goes out together with one about another Node where the decision needs that one found. Facts of
//! all Nodes together (the census) are counted only when an instance is absent or stopped.

use std::{sync::Arc, time::Duration};

use futures::future::join;
use jiff::Timestamp;
use outrigger_core::{
    decision::DecisionReason,
    node::{
        NodeView, Ready,
        instance::{Lookup, is_same_question},
        lifecycle::{Check, Idle, LifecycleFacts},
        ownership::{NodeScope, ProviderIdOwner},
    },
};
use tokio::time::timeout;
use tracing::debug;

use super::{NAME, NodeLifecycle, is_over};
use crate::{not_managed::ASKED_AGAIN, queue::Outcome};
use outrigger_provider::{Error, InstancesCapability, LookupAnswer, LookupPurpose};
use outrigger_runtime::{
    clock::{time_of_day, until},
    history,
};

/// How long the answer about a Node waits for that about another one: both leave in one call, unless one has hung before.
const OTHER_WAIT: Duration = Duration::from_secs(5);

/// Declarations of a provider.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) boot_id: Arc<str>,
    instances: Arc<InstancesCapability>,
}

/// Facts of all nodes together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Census {
    /// How many are this provider's.
    pub(super) owned: usize,
    /// True if the provider ID of a Node is another provider's.
    foreign: bool,
}

impl NodeLifecycle {
    pub(super) async fn sync(&self, name: Arc<str>) -> Outcome {
        let Some(node) = self.context.nodes.get(&name) else {
            return Outcome::Done;
        };
        // The loop is ready once a provider serves instances.
        let Some(declared) = self.declared() else {
            return Outcome::Retry;
        };
        // Facts of all nodes together matter to answers alone.
        let facts = self.facts(&node, &declared, Census::default());
        let now = self.state.clock.now();
        let check = self.state.lifecycle.lock().check(now, &node, &facts);
        self.explain(&node, "check", || DecisionReason::of_check(&check));
        self.forget_if_gone(&node, now);
        match check {
            Check::Ask => self.ask(node).await,
            Check::At(time) => Outcome::RetryAfter(until(time, now)),
            Check::RemoveTaints(change) => self.remove_taints(node, &change).await,
            Check::Idle(idle) => leave(&node, idle),
        }
    }

    async fn ask(&self, node_at_lookup: Arc<NodeView>) -> Outcome {
        let began = self.state.clock.now();
        let provider = &self.context.provider;
        let look_up = |node| {
            let purpose = LookupPurpose::Lifecycle;
            provider.instances().look_up(node, purpose)
        };
        let other = self.other_than(&node_at_lookup, began);
        let answer = async {
            provider.instances().until_served().await?;
            // In one call, mostly.
            let other = async {
                let other = other?;
                let answer = timeout(OTHER_WAIT, look_up(Arc::clone(&other)));
                let answer = answer.await.ok()?;
                Some((other, answer))
            };
            Ok(join(look_up(Arc::clone(&node_at_lookup)), other).await)
        };
        let has_ended = || {
            let node = self.context.nodes.get(&node_at_lookup.name);
            node.is_none_or(|node| is_over(&node))
        };
        let questions = &self.state.questions;
        let Some(answer) = questions.ask(&node_at_lookup.name, has_ended, answer).await else {
            // It runs again for the change that has ended it, unless that came before it began.
            return Outcome::RetryAfter(Duration::ZERO);
        };
        let (answer, other) = answer.unwrap_or_else(|error: Error| (Err(error).into(), None));
        let LookupAnswer {
            result: lookup,
            effects,
        } = answer;
        let other = other.map(|(other, answer)| {
            self.other_answered(&other, answer.result.as_ref().ok());
            (other, answer.effects)
        });
        let Some(declared) = self.declared() else {
            return Outcome::Retry;
        };
        self.metrics.asked(&lookup);
        if let Err(error) = &lookup {
            let (name, class) = (&*node_at_lookup.name, error.class().as_str());
            self.note(name, class, || error.to_string());
            debug!(
                node = name,
                class,
                %error,
                "instance of the node cannot be looked up"
            );
        }
        let Some(node) = self.context.nodes.get(&node_at_lookup.name) else {
            return Outcome::Done;
        };
        let census = match &lookup {
            Ok(Lookup::Absent { .. }) => self.census(&declared.instances),
            Ok(lookup) if lookup.is_stopped(&node) => self.census(&declared.instances),
            _ => Census::default(),
        };
        let facts = self.facts(&node, &declared, census);
        let now = self.state.clock.now();
        let answer = lookup.as_ref().ok();
        let verdict = {
            let mut lifecycle = self.state.lifecycle.lock();
            lifecycle.answered(now, &node, &node_at_lookup, answer, &facts)
        };
        self.explain(&node, "judge", || {
            DecisionReason::of_action(&node, answer, &facts, &verdict.action)
        });
        self.forget_if_gone(&node, now);
        let acted = self.act(&node, &declared.boot_id, verdict.action).await;
        if acted.is_ok() {
            let took = until(self.state.clock.now(), began);
            self.metrics.durations.observe(took.as_secs_f64());
        }
        // They delay no verdict, and a Node that was deleted needs none.
        self.write_effects(&node_at_lookup, effects).await;
        if let Some((other, effects)) = other {
            self.write_effects(&other, effects).await;
        }
        match (acted, verdict.next) {
            (Err(retry), _) => retry,
            (Ok(()), Check::At(time)) => Outcome::RetryAfter(until(time, now)),
            // The node changed, and changes come by themselves.
            (Ok(()), Check::Ask | Check::RemoveTaints(_)) => Outcome::RetryAfter(Duration::ZERO),
            (Ok(()), Check::Idle(idle)) => leave(&node, idle),
        }
    }

    /// A Node to be asked about together with `node`, if the provider has to find one: a ready one if there is any, another
    /// each time.
    fn other_than(&self, node: &NodeView, now: Timestamp) -> Option<Arc<NodeView>> {
        let needs_other = self.state.lifecycle.lock().needs_other(now, node);
        let declared = needs_other.then(|| self.declared()).flatten()?;
        let mut others = self.context.nodes.all();
        others.retain(|other| {
            let facts = self.facts(other, &declared, Census::default());
            other.name != node.name && facts.scope.may_touch(other) && !facts.not_managed
        });
        let is_ready = |other: &Arc<NodeView>| other.ready == Ready::True;
        if others.iter().any(is_ready) {
            others.retain(is_ready);
        }
        fastrand::choice(others)
    }

    /// Counts the answer about a Node that was asked about beside another one.
    fn other_answered(&self, other: &NodeView, lookup: Option<&Lookup>) {
        let node = self.context.nodes.get(&other.name);
        if let Some(node) = node.filter(|node| is_same_question(node, other)) {
            let now = self.state.clock.now();
            let mut lifecycle = self.state.lifecycle.lock();
            lifecycle.other_answered(now, &node, lookup);
        }
    }

    /// Notes why nothing came of a decision about the node.
    pub(super) fn note(&self, name: &str, rule: &'static str, text: impl FnOnce() -> String) {
        let history = &self.context.history;
        let why = || DecisionReason { rule, text: text() };
        history.decided(NAME, history::node(name), "sync", why);
    }

    fn explain(&self, node: &NodeView, kind: &'static str, why: impl FnOnce() -> DecisionReason) {
        let history = &self.context.history;
        history.decided(NAME, history::node(&node.name), kind, why);
    }

    /// The declarations of the provider that serves instances now, or did last.
    fn declared(&self) -> Option<Declared> {
        if let Some(session) = self.context.provider.session()
            && let Some(instances) = &session.instances
        {
            *self.declared.write() = Some(Declared {
                boot_id: Arc::clone(&session.boot_id),
                instances: Arc::clone(instances),
            });
        }
        self.declared.read().clone()
    }

    fn facts<'a>(
        &'a self,
        node: &NodeView,
        declared: &'a Declared,
        census: Census,
    ) -> LifecycleFacts<'a> {
        let instances = &declared.instances;
        LifecycleFacts {
            scope: NodeScope {
                prefixes: &instances.prefixes,
                selector: self.settings.selector.as_deref(),
                foreign_prefix_seen: census.foreign,
            },
            nodes: census.owned,
            visibility_delay: instances.visibility_delay,
            without_provider_id: instances.without_provider_id,
            // Not the clock of the term: it may have begun with a wrong one.
            time_of_day: time_of_day(),
            out_of_service_after: self.settings.out_of_service_after,
            not_managed: self.not_managed.knows(node, &declared.boot_id),
        }
    }

    /// Looks at all nodes: cheap, and asked for only when one is absent.
    pub(super) fn census(&self, instances: &InstancesCapability) -> Census {
        let selector = self.settings.selector.as_deref();
        let (mut ours, mut unset, mut foreign) = (0, 0, false);
        self.context
            .nodes
            .for_each(|node| match instances.prefixes.owner(&node.provider_id) {
                ProviderIdOwner::Ours => ours += 1,
                ProviderIdOwner::Foreign => foreign = true,
                ProviderIdOwner::Unset => {
                    unset += usize::from(selector.is_none_or(|s| s.matches(&node.labels)));
                }
            });
        // Without a selector, nodes without an ID belong to no certain provider in a shared
        // cluster.
        let unset = if foreign && selector.is_none() {
            0
        } else {
            unset
        };
        Census {
            owned: ours + unset,
            foreign,
        }
    }

    /// The store's word that the node is gone may have come while we remembered it once more.
    fn forget_if_gone(&self, node: &NodeView, now: Timestamp) {
        if self.context.nodes.get(&node.name).is_none() {
            self.state.lifecycle.lock().removed(now, &node.name);
        }
    }
}

/// When `node`, which is not asked about, is looked at again, unless it changes before.
fn leave(node: &NodeView, idle: Idle) -> Outcome {
    if !matches!(idle, Idle::Ready) {
        debug!(node = &*node.name, reason = ?idle, "node is not checked");
    }
    match idle {
        Idle::NotManaged => Outcome::RetryAfter(ASKED_AGAIN),
        Idle::Ready | Idle::BeingDeleted | Idle::Paused | Idle::Foreign => Outcome::Done,
    }
}

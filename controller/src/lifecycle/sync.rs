//! One node: is it time to ask, what does the answer mean, when to ask again.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use outrigger_core::node::{
    NodeView,
    instance::Lookup,
    lifecycle::{Check, Idle, LifecycleFacts},
    ownership::{NodeScope, ProviderIdOwner},
};
use tracing::debug;

use super::{NodeLifecycle, act::Failed};
use crate::{
    clock::until,
    provider::{InstancesCapability, LookupAnswer, LookupPurpose, Session},
    queue::Outcome,
};

/// Facts of all nodes together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Census {
    /// How many are this provider's.
    pub(super) owned: usize,
    /// Whether one is another provider's.
    foreign: bool,
}

impl NodeLifecycle {
    pub(super) async fn sync(&self, name: Arc<str>) -> Outcome {
        let Some(node) = self.parts.nodes.get(&name) else {
            return Outcome::Done;
        };
        // The gate was open a moment ago; if it is not now, the queue waits for it.
        let Some(session) = self.parts.provider.session() else {
            return Outcome::Retry;
        };
        let Some(instances) = &session.instances else {
            return Outcome::Done;
        };
        // Facts of all nodes together matter to answers alone.
        let facts = self.facts(&node, &session, instances, Census::default());
        let now = self.state.clock.now();
        let check = self.state.lifecycle.lock().check(now, &node, &facts);
        self.forget_if_gone(&node, now);
        match check {
            Check::Ask => self.ask(node, &session, instances).await,
            Check::At(time) => Outcome::RetryAfter(until(time, now)),
            Check::RemoveShutdownTaint(_) => self.remove_shutdown_taint(node).await,
            Check::Idle(idle) => {
                self.leave(&node, idle);
                Outcome::Done
            }
        }
    }

    async fn ask(
        &self,
        asked: Arc<NodeView>,
        session: &Session,
        instances: &InstancesCapability,
    ) -> Outcome {
        let began = self.state.clock.now();
        let provider = &self.parts.provider;
        let purpose = LookupPurpose::Lifecycle;
        let answer = provider.lookup(Arc::clone(&asked), purpose).await;
        let LookupAnswer {
            result: lookup,
            effects,
        } = answer;
        self.parts.metrics.asked(&lookup);
        if let Err(error) = &lookup {
            debug!(
                node = &*asked.name,
                class = error.class().as_str(),
                %error,
                "instance of the node cannot be looked up"
            );
        }
        let Some(node) = self.parts.nodes.get(&asked.name) else {
            return Outcome::Done;
        };
        let census = match lookup {
            Ok(Lookup::Absent { .. }) => self.census(instances),
            _ => Census::default(),
        };
        let facts = self.facts(&node, session, instances, census);
        let now = self.state.clock.now();
        let verdict = {
            let mut lifecycle = self.state.lifecycle.lock();
            lifecycle.answered(now, &node, &asked, lookup.as_ref().ok(), &facts)
        };
        self.forget_if_gone(&node, now);
        let acted = self.act(&node, session, verdict.action).await;
        if acted.is_ok() {
            let took = until(self.state.clock.now(), began);
            self.parts.metrics.checked(took);
        }
        // They delay no verdict, and a Node that was deleted needs none.
        self.write_effects(&asked, effects).await;
        match (acted, verdict.next) {
            (Err(Failed(retry)), _) => retry,
            (Ok(()), Check::At(time)) => Outcome::RetryAfter(until(time, now)),
            // The node changed, and changes come by themselves.
            (Ok(()), Check::Ask | Check::RemoveShutdownTaint(_)) => {
                Outcome::RetryAfter(Duration::ZERO)
            }
            (Ok(()), Check::Idle(_)) => Outcome::Done,
        }
    }

    fn facts<'a>(
        &'a self,
        node: &NodeView,
        session: &Session,
        instances: &'a InstancesCapability,
        census: Census,
    ) -> LifecycleFacts<'a> {
        LifecycleFacts {
            scope: NodeScope {
                prefixes: &instances.prefixes,
                selector: self.parts.settings.selector.as_deref(),
                foreign_prefix_seen: census.foreign,
            },
            nodes: census.owned,
            visibility_delay: instances.visibility_delay,
            not_managed: self.parts.not_managed.knows(node, session),
        }
    }

    /// Looks at all nodes: cheap, and asked for only when one is absent.
    pub(super) fn census(&self, instances: &InstancesCapability) -> Census {
        let selector = self.parts.settings.selector.as_deref();
        let (mut ours, mut unset, mut foreign) = (0, 0, false);
        self.parts
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
        if self.parts.nodes.get(&node.name).is_none() {
            self.state.lifecycle.lock().removed(now, &node.name);
        }
    }

    fn leave(&self, node: &NodeView, idle: Idle) {
        self.state.withheld.lock().remove(&node.name);
        if !matches!(idle, Idle::Ready) {
            debug!(node = &*node.name, reason = ?idle, "node is not checked");
        }
    }
}

//! One destination: confirm, delete, create, until its routes are as they should be.
//!
//! Each step is planned again right before its call is sent, since a call may wait for long while calls pause. One route is
//! made at most in one run of a key.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    cidr::Cidr,
    effects::RawEffects,
    error_class::Requeue,
    route::{Confirmation, ObservedRoute, RoutePlan, RouteStep, WantedRoute},
};
use tokio::time::Instant;
use tracing::info;

use super::{NodeRoute, RouteKey, metrics::SyncOutcome};
use crate::queue::{Outcome, Priority};
use outrigger_provider::Error;

/// An answer of the API server is good for this time: a call may wait for an hour while calls pause. Longer than any call,
/// so that among many deletions each is sent in the end.
const FRESH: Duration = Duration::from_mins(5);

impl NodeRoute {
    /// Reconciles the routes of `destination`, then the conditions of the Nodes that have it.
    pub(super) async fn sync_destination(&self, destination: Cidr) -> Outcome {
        let mut synced = SyncOutcome::Noop;
        let outcome = self.carry_out(destination, &mut synced).await;
        self.metrics.synced(synced, "node_change");
        let concerned: Vec<_> = {
            let findings = self.state.findings();
            let nodes = findings.nodes.with(destination);
            nodes
                .map(|node| RouteKey::Node(Arc::clone(&node.name)))
                .collect()
        };
        self.context.queue.add_all(concerned, Priority::Fresh);
        outcome
    }

    async fn carry_out(&self, destination: Cidr, synced: &mut SyncOutcome) -> Outcome {
        let mut confirmed = Vec::new();
        // When the first of these questions was put.
        let mut asked_at = Instant::now();
        let mut is_made = false;
        loop {
            let Some(RoutePlan { step, refused }) = self.state.plan(destination, &confirmed) else {
                return Outcome::Retry;
            };
            for one in &refused {
                self.report_refused(one);
            }
            let changed = match step {
                RouteStep::Nothing => {
                    let left = self.state.keeps_lost();
                    return left.map_or(Outcome::Done, Outcome::RetryAfter);
                }
                RouteStep::Keep => {
                    self.state.findings().keep(destination);
                    return Outcome::Done;
                }
                // Otherwise this could go on for ever.
                _ if is_made => return Outcome::Retry,
                RouteStep::List if self.wait_for_list(destination).await => continue,
                RouteStep::List => return Outcome::Retry,
                RouteStep::Confirm(question) => {
                    if confirmed.is_empty() {
                        asked_at = Instant::now();
                    }
                    let answered = self.confirm(&question, destination).await;
                    confirmed.push(question);
                    match answered {
                        Ok(true) => continue,
                        Ok(false) => return Outcome::Retry,
                        Err(error) => {
                            *synced = SyncOutcome::Error;
                            return error.requeue().into();
                        }
                    }
                }
                RouteStep::Delete(ref route) => {
                    let is_current = self.is_current(destination, &step, &confirmed, asked_at);
                    self.delete(route, is_current).await
                }
                RouteStep::Create(ref route) => {
                    is_made = true;
                    let is_current = self.is_current(destination, &step, &confirmed, asked_at);
                    self.create(route, is_current).await
                }
            };
            if let Err(outcome) = changed {
                *synced = SyncOutcome::Error;
                return outcome;
            }
            *synced = SyncOutcome::Changed;
        }
    }

    /// Returns a check, for the moment before the call is sent, that `step` is still the next for `destination`.
    fn is_current(
        &self,
        destination: Cidr,
        step: &RouteStep,
        confirmed: &[Confirmation],
        asked_at: Instant,
    ) -> impl Fn() -> bool + Send + Sync + 'static {
        let (state, step) = (Arc::clone(&self.state), step.clone());
        let confirmed = confirmed.to_vec();
        move || {
            let is_fresh = asked_at.elapsed() <= FRESH;
            let confirmed = if is_fresh { &confirmed[..] } else { &[] };
            let planned = state.plan(destination, confirmed);
            planned.is_some_and(|planned| planned.step == step)
        }
    }

    async fn create(
        &self,
        route: &WantedRoute,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<(), Outcome> {
        let destination = route.destination;
        self.state.findings().table.call_begins(destination);
        let provider = &self.context.provider;
        let answer = provider.routes().create(route.clone(), is_current).await;
        self.observe_effects(&route.node_name, &route.node_uid, answer.effects);
        match answer.result {
            Ok(created) => {
                let mut findings = self.state.findings();
                findings.table.created(route, created);
                findings.failed.remove(&destination);
                drop(findings);
                info!(node = &*route.node_name, %destination, "route created");
                Ok(())
            }
            Err(error) => {
                self.state.findings().not_created(route, &error);
                self.metrics.failed("create", error.class());
                if is_for_owner(&error) {
                    self.report_not_created(route, &error);
                }
                let line = "route cannot be created";
                self.log(line, destination, &route.node_name, &error);
                Err(error.class().requeue().into())
            }
        }
    }

    /// a failure is logged only.
    async fn delete(
        &self,
        route: &ObservedRoute,
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<(), Outcome> {
        let destination = route.destination();
        self.state.findings().table.call_begins(destination);
        let provider = &self.context.provider;
        let node = &route.raw().node_name;
        // A route names no UID: a Node that registers under the name during the call is another one.
        let target = self.context.nodes.get(node);
        let answer = provider.routes().delete(route.clone(), is_current).await;
        if let Some(target) = target {
            self.observe_effects(node, &target.uid, answer.effects);
        }
        match answer.result {
            Ok(_) => {
                self.state.findings().table.deleted(route);
                info!(node, %destination, "route deleted");
                Ok(())
            }
            Err(error) => {
                self.state.findings().not_deleted(destination, &error);
                self.metrics.failed("delete", error.class());
                self.log("route cannot be deleted", destination, node, &error);
                // The Node whose change would bring the next try is gone.
                Err(match error.class().requeue() {
                    Requeue::OnChange => Requeue::SlowBackOff.into(),
                    requeue => requeue.into(),
                })
            }
        }
    }

    /// Queues the Node to have them written, if it still is the one of this UID.
    fn observe_effects(&self, node: &str, uid: &str, effects: RawEffects) {
        if let Some(node) = self.context.nodes.get(node)
            && *node.uid == *uid
            && self.effects.observe(&node, effects)
        {
            let key = RouteKey::Node(Arc::clone(&node.name));
            self.context.queue.add(key, Priority::Fresh);
        }
    }
}

/// Returns true if the error goes into an event and a condition of the Node. After an unknown result the loop lists
/// first, and a missing UID of the cluster concerns every Node alike.
pub(super) fn is_for_owner(error: &Error) -> bool {
    let is_general = matches!(error, Error::Unidentified { .. });
    error.class().is_for_owner() && !is_general && !error.leaves_result_unknown()
}

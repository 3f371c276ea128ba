//! One destination: confirm, delete, create, until its routes are as they should be.

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

/// Name of the method, for an error of its answer.
const CREATE: &str = "CreateRoute";
const NOT_CREATED: &str = "route cannot be created";

/// An answer of the API server is good for this time: a call may wait for an hour while calls pause. Longer than any call,
/// so that among many deletions each is sent in the end.
const FRESH: Duration = Duration::from_mins(5);

/// Questions that the API server has answered.
#[derive(Clone, Debug, Default)]
struct Confirmed {
    questions: Vec<Confirmation>,
    /// When the first of them was asked for.
    since: Option<Instant>,
}

impl Confirmed {
    fn add(&mut self, question: Confirmation) {
        self.since.get_or_insert_with(Instant::now);
        self.questions.push(question);
    }

    /// Confirmations that are still valid.
    fn fresh(&self) -> &[Confirmation] {
        match self.since {
            Some(since) if since.elapsed() > FRESH => &[],
            _ => &self.questions,
        }
    }
}

impl NodeRoute {
    /// Reconciles the routes of `destination`, then the conditions of the Nodes that have it.
    pub(super) async fn sync_destination(&self, destination: Cidr) -> Outcome {
        let mut synced = SyncOutcome::Noop;
        let outcome = self.carry_out(destination, &mut synced).await;
        self.metrics.node_change(synced);
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
        let mut confirmed = Confirmed::default();
        let mut is_made = false;
        loop {
            let Some(RoutePlan { step, refused }) =
                self.decider.plan(destination, &confirmed.questions)
            else {
                return Outcome::Retry;
            };
            for one in &refused {
                self.report_refused(one);
            }
            let changed = match step {
                RouteStep::Nothing => {
                    let left = self.decider.keeps_lost();
                    return left.map_or(Outcome::Done, Outcome::RetryAfter);
                }
                RouteStep::Keep => {
                    self.state.findings().keep(destination);
                    return Outcome::Done;
                }
                // Otherwise this would go on for ever.
                RouteStep::Create(route) if is_made => {
                    *synced = SyncOutcome::Error;
                    return self.shown_otherwise(&route);
                }
                _ if is_made => return Outcome::Retry,
                RouteStep::List if self.wait_for_list(destination).await => continue,
                RouteStep::List => return Outcome::Retry,
                RouteStep::Confirm(question) => {
                    let answered = self.confirm(&question, destination).await;
                    confirmed.add(question);
                    match answered {
                        Ok(true) => continue,
                        Ok(false) => return Outcome::Retry,
                        Err(error) => {
                            *synced = SyncOutcome::Error;
                            return error.requeue().into();
                        }
                    }
                }
                RouteStep::Delete(route) => self.delete(route, &confirmed).await,
                RouteStep::Create(route) => {
                    is_made = true;
                    self.create(route, &confirmed).await
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
        step: RouteStep,
        confirmed: &Confirmed,
    ) -> impl Fn() -> bool + Send + Sync + 'static {
        let (decider, confirmed) = (Arc::clone(&self.decider), confirmed.clone());
        move || {
            let planned = decider.plan(destination, confirmed.fresh());
            planned.is_some_and(|planned| planned.step == step)
        }
    }

    async fn create(&self, route: WantedRoute, confirmed: &Confirmed) -> Result<(), Outcome> {
        let destination = route.destination;
        let step = RouteStep::Create(route.clone());
        let is_current = self.is_current(destination, step, confirmed);
        self.state.findings().table.call_begins(destination);
        let provider = &self.context.provider;
        let answer = provider.routes().create(route.clone(), is_current).await;
        self.observe_effects(&route.node_name, &route.node_uid, answer.effects);
        match answer.result {
            Ok(created) => {
                let mut findings = self.state.findings();
                findings.table.created(&route, created);
                findings.failed.remove(&destination);
                drop(findings);
                info!(node = &*route.node_name, %destination, "route created");
                Ok(())
            }
            Err(error) => {
                self.state.findings().not_created(&route, &error);
                Err(self.creation_failed(&route, &error))
            }
        }
    }

    /// A creation that the provider has answered with OK, and a route that does not lead to its Node. To delete that
    /// one, and to make it again, would bring the same.
    fn shown_otherwise(&self, route: &WantedRoute) -> Outcome {
        let error = Error::Malformed {
            rpc: CREATE,
            what: self.decider.dispute(route).unwrap_or_default().into(),
        };
        let mut findings = self.state.findings();
        findings.failed.insert(route.destination, error.steady());
        drop(findings);
        self.report_not_created(route, &error);
        self.creation_failed(route, &error)
    }

    fn creation_failed(&self, route: &WantedRoute, error: &Error) -> Outcome {
        self.metrics.failed("create", error.class());
        if is_for_owner(error) {
            self.report_not_created(route, error);
        }
        self.log(NOT_CREATED, route.destination, &route.node_name, error);
        Outcome::from(error.class().requeue())
    }

    /// a failure is logged only.
    async fn delete(&self, route: ObservedRoute, confirmed: &Confirmed) -> Result<(), Outcome> {
        let destination = route.destination();
        let step = RouteStep::Delete(route.clone());
        let is_current = self.is_current(destination, step, confirmed);
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
                self.state.findings().table.deleted(&route);
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

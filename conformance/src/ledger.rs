//! Everything that the provider said in a run and that rules beyond one call are about.

use std::collections::BTreeSet;

use outrigger_api::v1::{
    self, DeleteLoadBalancerResponse, EnsureLoadBalancerResponse, GetLoadBalancerResponse,
    KubernetesEffects, LoadBalancerAnswer, UpdateLoadBalancerNodesResponse,
    update_load_balancer_nodes_response::Outcome as UpdateOutcome,
};
use parking_lot::Mutex;

use crate::{
    case::ErrorRule,
    client::CallError,
    verdict::{Failure, Stop},
};

/// Errors, answers and effects that are kept, of each: a stress run makes many.
const MOST: usize = 10_000;

/// The record of one run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    seen: Mutex<Seen>,
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Of calls and of items.
    pub(crate) errors: Vec<CallError>,
    /// Load balancer answers with the method that gave them.
    pub(crate) answers: Vec<(&'static str, LoadBalancerAnswer)>,
    /// Effects about Nodes, and about Services.
    pub(crate) node_effects: Vec<KubernetesEffects>,
    pub(crate) service_effects: Vec<KubernetesEffects>,
    /// Other texts for people.
    pub(crate) texts: BTreeSet<String>,
}

impl Seen {
    /// The errors that break a rule.
    pub(crate) fn breaches(&self, rule: ErrorRule) -> impl Iterator<Item = Failure> {
        self.errors
            .iter()
            .filter_map(move |error| match rule(error) {
                Err(Stop::Failed(failure)) => Some(failure),
                Ok(()) | Err(Stop::Skipped(_)) => None,
            })
    }
}

impl Ledger {
    pub(crate) fn record(&self, error: CallError) {
        let mut seen = self.seen.lock();
        if seen.errors.len() < MOST {
            seen.errors.push(error);
        }
    }

    /// Keeps the parts of an answer that are judged later.
    pub(crate) fn see(&self, answer: &impl Evidence) {
        let mut seen = self.seen.lock();
        answer.leave(&mut seen);
        seen.errors.truncate(MOST);
        seen.answers.truncate(MOST);
        seen.node_effects.truncate(MOST);
        seen.service_effects.truncate(MOST);
        while seen.texts.len() > MOST {
            seen.texts.pop_last();
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }
}

/// An answer that leaves something behind.
pub(crate) trait Evidence {
    fn leave(&self, seen: &mut Seen);
}

fn answered(seen: &mut Seen, rpc: &'static str, answer: Option<&LoadBalancerAnswer>) {
    // An absent answer is an empty one.
    let answer = answer.cloned().unwrap_or_default();
    seen.service_effects.extend(answer.effects.clone());
    seen.texts.insert(answer.message.clone());
    seen.answers.push((rpc, answer));
}

impl Evidence for GetLoadBalancerResponse {
    fn leave(&self, seen: &mut Seen) {
        answered(seen, "GetLoadBalancer", self.answer.as_ref());
    }
}

impl Evidence for EnsureLoadBalancerResponse {
    fn leave(&self, seen: &mut Seen) {
        answered(seen, "EnsureLoadBalancer", self.answer.as_ref());
    }
}

impl Evidence for DeleteLoadBalancerResponse {
    fn leave(&self, seen: &mut Seen) {
        answered(seen, "DeleteLoadBalancer", self.answer.as_ref());
    }
}

impl Evidence for UpdateLoadBalancerNodesResponse {
    fn leave(&self, seen: &mut Seen) {
        match &self.outcome {
            Some(UpdateOutcome::Answer(answer)) => {
                answered(seen, "UpdateLoadBalancerNodes", Some(answer));
            }
            Some(UpdateOutcome::Error(status)) => {
                let error = CallError::of_item("UpdateLoadBalancerNodes", status);
                seen.errors.push(error);
            }
            None => {}
        }
    }
}

impl Evidence for v1::BatchGetInstancesResponse {
    fn leave(&self, seen: &mut Seen) {
        use v1::instance_result::Outcome;
        for result in &self.results {
            seen.node_effects.extend(result.effects.clone());
            match &result.outcome {
                Some(Outcome::Error(status)) => seen
                    .errors
                    .push(CallError::of_item("BatchGetInstances", status)),
                Some(Outcome::NotManaged(of_another)) => {
                    seen.texts.insert(of_another.reason.clone());
                }
                _ => {}
            }
        }
    }
}

fn routed(seen: &mut Seen, rpc: &'static str, results: &[v1::RouteResult]) {
    for result in results {
        seen.node_effects.extend(result.effects.clone());
        if let Some(status) = result.status.as_ref().filter(|status| status.code != 0) {
            seen.errors.push(CallError::of_item(rpc, status));
        }
    }
}

impl Evidence for v1::BatchCreateRoutesResponse {
    fn leave(&self, seen: &mut Seen) {
        routed(seen, "BatchCreateRoutes", &self.results);
    }
}

impl Evidence for v1::BatchDeleteRoutesResponse {
    fn leave(&self, seen: &mut Seen) {
        routed(seen, "BatchDeleteRoutes", &self.results);
    }
}

impl Evidence for v1::BatchGetVolumesResponse {
    fn leave(&self, seen: &mut Seen) {
        for result in &self.results {
            if let Some(v1::volume_result::Outcome::Error(status)) = &result.outcome {
                let error = CallError::of_item("BatchGetVolumes", status);
                seen.errors.push(error);
            }
        }
    }
}

impl Evidence for v1::PlanLoadBalancerResponse {
    fn leave(&self, seen: &mut Seen) {
        let summaries = self.changes.iter().map(|change| change.summary.clone());
        seen.texts.extend(summaries);
    }
}

impl Evidence for v1::GetStatusResponse {
    fn leave(&self, seen: &mut Seen) {
        let messages = self.dependencies.iter().map(|one| one.message.clone());
        seen.texts.extend(messages);
    }
}

impl Evidence for v1::HandshakeResponse {
    fn leave(&self, _: &mut Seen) {}
}

impl Evidence for tonic_health::pb::HealthCheckResponse {
    fn leave(&self, _: &mut Seen) {}
}

//! Everything that the provider said in a run and that rules beyond one call are about.

use std::{any::Any, collections::BTreeSet};

use outrigger_api::v1::{
    CreateRouteResponse, DeleteLoadBalancerResponse, DeleteRouteResponse,
    EnsureLoadBalancerResponse, GetLoadBalancerResponse, InstanceResult, KubernetesEffects,
    LoadBalancerAnswer, UpdateLoadBalancerNodesResponse,
};
use parking_lot::Mutex;

use crate::{
    call_error::CallError,
    verdict::{ErrorRule, Failure, Stop},
};

/// Errors, answers and effects that are kept, of each: an exploration makes many.
const MOST: usize = 10_000;

/// The record of one run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    secrets: Vec<String>,
    observations: Mutex<Observations>,
}

/// The observations of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    /// Errors of calls and of items.
    pub(crate) errors: Vec<CallError>,
    /// Load balancer answers with the method that gave them.
    pub(crate) answers: Vec<(&'static str, LoadBalancerAnswer)>,
    /// Effects about Nodes, and about Services.
    pub(crate) node_effects: Vec<KubernetesEffects>,
    pub(crate) service_effects: Vec<KubernetesEffects>,
    /// Methods of which an answer or an error held a secret of the inputs.
    pub(crate) with_secrets: BTreeSet<&'static str>,
}

impl Observations {
    /// The errors that break a rule.
    pub(crate) fn breaches(&self, rule: ErrorRule) -> impl Iterator<Item = Failure> {
        self.errors
            .iter()
            .filter_map(move |error| match rule(error) {
                Err(Stop::Failed(failure)) => Some(failure),
                Ok(()) | Err(Stop::Skipped(_)) => None,
            })
    }

    fn answered(&mut self, rpc: &'static str, answer: Option<&LoadBalancerAnswer>) {
        // An absent answer is an empty one.
        let answer = answer.cloned().unwrap_or_default();
        self.service_effects.extend(answer.effects.clone());
        self.answers.push((rpc, answer));
    }
}

impl Ledger {
    /// A record that looks for these texts.
    pub(crate) fn new(secrets: &[String]) -> Self {
        // An empty text is in every answer.
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        Self {
            secrets: secrets.cloned().collect(),
            observations: Mutex::default(),
        }
    }

    pub(crate) fn record(&self, error: CallError) {
        self.search(error.rpc, || error.message.clone().into_bytes());
        let mut observations = self.observations.lock();
        if observations.errors.len() < MOST {
            observations.errors.push(error);
        }
    }

    /// Looks for secrets in the bytes of an answer: its texts are in them as they are.
    pub(crate) fn search(&self, rpc: &'static str, bytes: impl FnOnce() -> Vec<u8>) {
        if self.secrets.is_empty() {
            return;
        }
        let bytes = bytes();
        let holds = |secret: &String| {
            let mut parts = bytes.windows(secret.len());
            parts.any(|part| part == secret.as_bytes())
        };
        if self.secrets.iter().any(holds) {
            self.observations.lock().with_secrets.insert(rpc);
        }
    }

    /// Keeps the parts of a result of a batch that are judged later.
    pub(crate) fn see_result(&self, rpc: &'static str, result: &InstanceResult) {
        if let Some(status) = result.error() {
            self.record(CallError::of_item(rpc, status));
        }
        let effects = result.effects.clone();
        self.observations.lock().node_effects.extend(effects);
    }

    /// Keeps the parts of an answer that are judged later.
    pub(crate) fn see(&self, rpc: &'static str, answer: &dyn Any) {
        let mut observations = self.observations.lock();
        if let Some(one) = answer.downcast_ref::<GetLoadBalancerResponse>() {
            observations.answered(rpc, one.answer.as_ref());
        } else if let Some(one) = answer.downcast_ref::<EnsureLoadBalancerResponse>() {
            observations.answered(rpc, one.answer.as_ref());
        } else if let Some(one) = answer.downcast_ref::<DeleteLoadBalancerResponse>() {
            observations.answered(rpc, one.answer.as_ref());
        } else if let Some(one) = answer.downcast_ref::<CreateRouteResponse>() {
            observations.node_effects.extend(one.effects.clone());
        } else if let Some(one) = answer.downcast_ref::<DeleteRouteResponse>() {
            observations.node_effects.extend(one.effects.clone());
        } else if let Some(one) = answer.downcast_ref::<UpdateLoadBalancerNodesResponse>() {
            observations.answered(rpc, one.answer.as_ref());
        }
        observations.answers.truncate(MOST);
        observations.node_effects.truncate(MOST);
        observations.service_effects.truncate(MOST);
    }

    pub(crate) fn observations(&self) -> Observations {
        self.observations.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use outrigger_api::{
        RpcStatus,
        v1::{Instance, InstanceResult, instance_result},
    };
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_secret_is_found_in_any_text_of_an_answer_and_not_kept() {
        let ledger = Ledger::new(&["hush".to_owned(), String::new()]);
        let answer = |text: &str| {
            let outcome = instance_result::Outcome::Found(Instance {
                zone: text.to_owned(),
                ..Instance::default()
            });
            InstanceResult::new("node".to_owned(), outcome).encode_to_vec()
        };
        ledger.search("Quiet", || answer("zone-hus-h"));
        assert!(ledger.observations().with_secrets.is_empty());
        ledger.search("Lookup", || answer("zone-hush-1"));
        assert_eq!(
            ledger.observations().with_secrets,
            BTreeSet::from(["Lookup"])
        );
    }

    #[test]
    fn results_of_batches_leave_errors_effects_and_answers() {
        let ledger = Ledger::new(&[]);
        let failed = RpcStatus {
            code: 13,
            ..RpcStatus::default()
        };
        let effects = Some(KubernetesEffects::default());
        let of_node = InstanceResult {
            effects: effects.clone(),
            ..InstanceResult::new("node".to_owned(), instance_result::Outcome::Error(failed))
        };
        ledger.see_result("Lookup", &of_node);
        let answer = Some(LoadBalancerAnswer {
            effects,
            ..LoadBalancerAnswer::default()
        });
        ledger.see("Update", &UpdateLoadBalancerNodesResponse { answer });
        let observations = ledger.observations();
        let errors: Vec<_> = observations
            .errors
            .iter()
            .map(|one| (one.rpc, one.of_item))
            .collect();
        assert_eq!(errors, [("Lookup", true)]);
        let answers: Vec<_> = observations.answers.iter().map(|(rpc, _)| *rpc).collect();
        assert_eq!(answers, ["Update"]);
        assert_eq!(
            (
                observations.node_effects.len(),
                observations.service_effects.len()
            ),
            (1, 1)
        );
    }
}

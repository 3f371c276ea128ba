//! Decisions in words, for `explain`: the rule that decided, and a sentence about what follows from it.
//!
//! The loops call a constructor of [`DecisionReason`] with a decision that they have made and note the result in their
//! history, which `/explain/` serves. Rules are stable across releases; sentences are for people. Nothing is decided here,
//! and no code reads a sentence.

use std::fmt::Write;

use crate::{
    error_class::Requeue,
    node::{
        NodeAddress, NodeView,
        change::NodeChange,
        instance::{Lookup, PowerState},
        lifecycle::{Check, Idle, LifecycleAction, LifecycleFacts, Measure},
        plan::{self, NodePlan, NodeWarning},
    },
    service::{
        ServiceView,
        answer::LoadBalancerAnswer,
        ownership::Ownership,
        plan::{Consequence, Failure, Progress, ServiceFacts, Step},
    },
};

/// The rule of a decision about a Node by which nothing has to be written.
const IN_SYNC: &str = "in_sync";

/// Why a decision is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionReason {
    /// The rule that decided: snake case, stable across releases.
    pub rule: &'static str,
    /// For people: what follows, and from what.
    pub text: String,
}

impl DecisionReason {
    fn new(rule: &'static str, text: impl Into<String>) -> Self {
        Self {
            rule,
            text: text.into(),
        }
    }

    /// The writes that bring a Node in line with its instance, or why there can be none.
    pub fn of_plan(planned: &Result<NodePlan, plan::Error>) -> Self {
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => return refused(error),
        };
        let change = plan.change.as_ref().map(changes);
        let addresses = plan.addresses.as_deref();
        let addresses = addresses.map(|new| format!("addresses {}", list(new)));
        let writes: Vec<_> = change.into_iter().chain(addresses).collect();
        let is_new = |change: &NodeChange| !change.remove_taints.is_empty();
        let (rule, text) = if writes.is_empty() {
            (IN_SYNC, "the Node is as its instance".to_owned())
        } else if plan.change.as_ref().is_some_and(is_new) {
            ("initialize", writes.join("; "))
        } else {
            ("refresh", writes.join("; "))
        };
        Self::new(rule, with_warnings(text, &plan.warnings))
    }

    /// The next step about a Node: the provider is asked, or not.
    pub fn of_check(check: &Check) -> Self {
        match check {
            Check::Ask => Self::new("ask", "not ready: the provider is asked about its instance"),
            Check::At(at) => Self::new("wait", format!("not ready: checked again at {at:.0}")),
            Check::RemoveTaints(_) => Self::new(
                "remove_taints",
                "ready: the taints of a stopped instance are removed",
            ),
            Check::Idle(idle) => of_idle(*idle),
        }
    }

    /// Why `action` follows for `node`, which is not ready, from the provider's answer, if there is one.
    pub fn of_action(
        node: &NodeView,
        lookup: Option<&Lookup>,
        facts: &LifecycleFacts<'_>,
        action: &LifecycleAction,
    ) -> Self {
        match action {
            LifecycleAction::Keep => {
                let state = match lookup {
                    Some(Lookup::Found(instance))
                        if instance.power_state == PowerState::Shutdown =>
                    {
                        let after = node.out_of_service_after(facts.out_of_service_after);
                        let in_service = match after {
                            _ if node.is_out_of_service() => "the Node is out of service",
                            Ok(None) => {
                                "no --out-of-service-after and no label of the Node asks for more"
                            }
                            _ => "its kubelet is not silent, so that the Node stays in service",
                        };
                        format!("its instance is stopped; {in_service}")
                    }
                    Some(Lookup::Found(instance)) => {
                        format!("its instance is {:?}", instance.power_state)
                    }
                    _ => String::new(),
                };
                Self::new("keep", state)
            }
            LifecycleAction::AddShutdownTaint(_) => Self::new(
                "add_shutdown_taint",
                "its instance is stopped: nothing new is scheduled",
            ),
            LifecycleAction::TakeOutOfService(_) => Self::new(
                "take_out_of_service",
                "its instance has been stopped for long: its Pods and volumes move to other Nodes",
            ),
            LifecycleAction::Delete(deletion) => Self::new(
                "delete",
                format!(
                    "its instance does not exist, confirmed; allowed: {}",
                    deletion.release.as_str()
                ),
            ),
            LifecycleAction::Withhold(measure, why) => {
                let what = match measure {
                    Measure::Deletion => "does not exist, and the Node is not deleted",
                    Measure::OutOfService => "is stopped, and the Node stays in service",
                };
                let why_not = why.sentence(*measure);
                Self::new(why.as_str(), format!("its instance {what}: {why_not}"))
            }
            LifecycleAction::NotManaged { reason } => Self::new(
                "not_managed",
                format!("the provider does not manage the Node: {reason}"),
            ),
            LifecycleAction::Inconclusive(why) => {
                Self::new(why.as_str(), format!("the Node is kept: {why}"))
            }
        }
    }

    /// Why `step` is the next for `service`.
    pub fn of_step(
        service: &ServiceView,
        facts: &ServiceFacts<'_>,
        progress: &Progress,
        step: &Step,
    ) -> Self {
        match step {
            Step::Idle => of_idle_service(facts.ownership(service), progress),
            Step::Hold { why, .. } => Self::new(
                why.as_str(),
                "the load balancer stays as it is; see the condition Waiting",
            ),
            Step::Write(_) => Self::new("write", "the Service is written, and looked at again"),
            Step::At(at) => Self::new("wait", format!("looked at again at {at:.0}")),
            Step::Ensure(ensure) => Self::new(ensure.cause.as_str(), "EnsureLoadBalancer"),
            Step::Update => Self::new("targets_changed", "UpdateLoadBalancerNodes"),
            Step::Delete { .. } => Self::new("not_wanted", "DeleteLoadBalancer"),
        }
    }

    /// The consequence of the answer to a call about a load balancer, or from none.
    pub fn of_answer(
        result: &Result<LoadBalancerAnswer, Box<Failure>>,
        consequence: &Consequence,
    ) -> Self {
        let (rule, mut text) = match result {
            Ok(answer) => (answer.disposition.as_str(), said(answer)),
            Err(failure) => (failure.class.as_str(), failed(failure)),
        };
        if consequence.patch.is_some() {
            text.push_str("; the Service is written");
        }
        let _ = match consequence.requeue {
            None => Ok(()),
            Some(Requeue::OnChange) => text.write_str("; nothing before a change"),
            Some(Requeue::After(wait)) if wait.is_zero() => text.write_str("; decided again"),
            Some(Requeue::After(wait)) => write!(text, "; asked again in {wait:?}"),
            Some(Requeue::BackOff | Requeue::SlowBackOff) => {
                text.write_str("; again after a back-off")
            }
        };
        Self { rule, text }
    }
}

fn refused(error: &plan::Error) -> DecisionReason {
    let rule = match error {
        plan::Error::NoProviderId { .. } => "no_provider_id",
        plan::Error::ProvidedNodeIp { .. } => "provided_node_ip",
    };
    DecisionReason::new(rule, error.to_string())
}

fn of_idle(idle: Idle) -> DecisionReason {
    match idle {
        Idle::Ready => DecisionReason::new("ready", "ready: its instance exists"),
        Idle::BeingDeleted => DecisionReason::new("being_deleted", "the Node is being deleted"),
        Idle::Paused => DecisionReason::new("paused", "an operator has paused the Node"),
        Idle::Foreign => DecisionReason::new(
            "foreign",
            "another provider's Node, or not selected by --node-selector",
        ),
        Idle::NotManaged => {
            DecisionReason::new("not_managed", "the provider does not manage the Node")
        }
    }
}

fn of_idle_service(ownership: Ownership, progress: &Progress) -> DecisionReason {
    match ownership {
        Ownership::Provide if progress.is_refused() => DecisionReason::new(
            "refused",
            "it was refused, or the provider does not manage it: nothing before the Service or the provider changes",
        ),
        Ownership::Foreign => DecisionReason::new(
            "foreign",
            "another implementation's: its class is not served here, or it is cleaned up",
        ),
        Ownership::Unrelated => DecisionReason::new("unrelated", "it wants no load balancer"),
        Ownership::Provide | Ownership::Hold | Ownership::Cleanup | Ownership::Undecided => {
            DecisionReason::new("settled", "the load balancer is what the Service wants")
        }
    }
}

fn said(answer: &LoadBalancerAnswer) -> String {
    let message = match &*answer.message {
        "" => String::new(),
        message => format!(": {message}"),
    };
    format!("the provider answers {:?}{message}", answer.disposition)
}

fn failed(failure: &Failure) -> String {
    match &*failure.reason {
        "" => failure.message.to_string(),
        reason => format!("{reason}: {}", failure.message),
    }
}

fn changes(change: &NodeChange) -> String {
    let mut parts = Vec::new();
    for taint in &change.remove_taints {
        parts.push(format!("removes the taint {}", taint.key));
    }
    if let Some(id) = &change.provider_id {
        parts.push(format!("sets the provider ID {id}"));
    }
    if !change.labels.is_empty() {
        let labels = change.labels.iter();
        let labels: Vec<_> = labels
            .map(|label| format!("{}={}", label.key, label.value))
            .collect();
        parts.push(format!("labels {}", labels.join(",")));
    }
    parts.join("; ")
}

fn with_warnings(mut text: String, warnings: &[NodeWarning]) -> String {
    for warning in warnings {
        let _ = write!(text, "; {warning}");
    }
    text
}

fn list(addresses: &[NodeAddress]) -> String {
    let addresses = addresses.iter();
    let addresses: Vec<_> = addresses
        .map(|address| format!("{}={}", address.kind, address.address))
        .collect();
    addresses.join(",")
}

#[cfg(test)]
mod tests;

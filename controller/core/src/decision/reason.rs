//! Decisions in a sentence: the rule by which one was made, and what follows from it.

use std::fmt::Write;

use super::{DecisionOutcome, PlanOutcome, RecordedDecision};
use crate::{
    error_class::Requeue,
    node::{
        NodeAddress,
        address::DesiredAddresses,
        change::NodeChange,
        initialize::{self, NodeWarning},
        instance::{Lookup, PowerState},
        lifecycle::{Check, Idle, LifecycleAction},
    },
    service::{
        answer::LoadBalancerAnswer,
        ownership::Ownership,
        patch_plan::StatusPatch,
        plan::{Consequence, Failure, HoldReason, Step},
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

    /// Returns true if the Node is as it should be: what each refresh finds, as long as nothing changes.
    pub fn is_in_sync(&self) -> bool {
        self.rule == IN_SYNC
    }

    /// The reason of `decision`, whose outcome was `outcome`.
    pub fn of(decision: &RecordedDecision<'_>, outcome: &DecisionOutcome<'_>) -> Self {
        match outcome {
            DecisionOutcome::Initialize(PlanOutcome::Error(error))
            | DecisionOutcome::Addresses(PlanOutcome::Error(error)) => refused(error),
            DecisionOutcome::Initialize(PlanOutcome::Plan(plan)) => match &plan.change {
                Some(change) if !change.remove_taints.is_empty() => {
                    Self::new("initialize", with_warnings(changes(change), &plan.warnings))
                }
                Some(change) => Self::new("write_labels", changes(change)),
                None => Self::new(IN_SYNC, "metadata and spec are as they should be"),
            },
            DecisionOutcome::Addresses(PlanOutcome::Plan(addresses)) => of_addresses(addresses),
            DecisionOutcome::Refresh(plan) => {
                let change = plan.change.as_ref().map(changes);
                let addresses = match &plan.addresses {
                    DesiredAddresses::Changed(new) => Some(format!("addresses {}", list(new))),
                    DesiredAddresses::Unchanged | DesiredAddresses::Untouched => None,
                };
                let writes: Vec<_> = change.into_iter().chain(addresses).collect();
                let (rule, text) = if writes.is_empty() {
                    (IN_SYNC, "the Node is as its instance".to_owned())
                } else {
                    ("refresh", writes.join("; "))
                };
                Self::new(rule, with_warnings(text, &plan.warnings))
            }
            DecisionOutcome::Check(check) => of_check(check),
            DecisionOutcome::Judge(decided) => of_action(decision, &decided.action),
            DecisionOutcome::NextStep(step) => of_step(decision, step),
            DecisionOutcome::Conclude(consequence) => of_consequence(decision, consequence),
        }
    }
}

fn refused(error: &initialize::Error) -> DecisionReason {
    let rule = match error {
        initialize::Error::NoProviderId { .. } => "no_provider_id",
        initialize::Error::ProvidedNodeIp { .. } => "provided_node_ip",
    };
    DecisionReason::new(rule, error.to_string())
}

fn of_addresses(addresses: &DesiredAddresses) -> DecisionReason {
    match addresses {
        DesiredAddresses::Untouched => DecisionReason::new(
            "no_addresses",
            "the provider names none; the kubelet's stay",
        ),
        DesiredAddresses::Unchanged => {
            DecisionReason::new(IN_SYNC, "the addresses are as they should be")
        }
        DesiredAddresses::Changed(new) => DecisionReason::new("write_addresses", list(new)),
    }
}

fn of_check(check: &Check) -> DecisionReason {
    match check {
        Check::Ask => {
            DecisionReason::new("ask", "not ready: the provider is asked about its instance")
        }
        Check::At(at) => {
            DecisionReason::new("wait", format!("not ready: checked again at {at:.0}"))
        }
        Check::RemoveTaints(_) => DecisionReason::new(
            "remove_taints",
            "ready: the taints of a stopped instance are removed",
        ),
        Check::Idle(idle) => of_idle(*idle),
    }
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

fn of_action(decision: &RecordedDecision<'_>, action: &LifecycleAction) -> DecisionReason {
    match action {
        LifecycleAction::Keep => {
            let state = match decision {
                RecordedDecision::Judge {
                    node,
                    lookup: Some(lookup),
                    facts,
                    ..
                } => match &**lookup {
                    Lookup::Found(instance) if instance.power_state == PowerState::Shutdown => {
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
                    Lookup::Found(instance) => {
                        format!("its instance is {:?}", instance.power_state)
                    }
                    Lookup::Absent { .. } | Lookup::NotManaged { .. } => String::new(),
                },
                _ => String::new(),
            };
            DecisionReason::new("keep", state)
        }
        LifecycleAction::AddShutdownTaint(_) => DecisionReason::new(
            "add_shutdown_taint",
            "its instance is stopped: nothing new is scheduled",
        ),
        LifecycleAction::TakeOutOfService(_) => DecisionReason::new(
            "take_out_of_service",
            "its instance has been stopped for long: its Pods and volumes move to other Nodes",
        ),
        LifecycleAction::KeepInService(why) => DecisionReason::new(
            why.as_str(),
            format!("its instance is stopped, and the Node is not taken out of service: {why}"),
        ),
        LifecycleAction::Delete(deletion) => DecisionReason::new(
            "delete",
            format!(
                "its instance does not exist, confirmed; allowed: {}",
                deletion.release.as_str()
            ),
        ),
        LifecycleAction::Withhold(why) => DecisionReason::new(
            why.as_str(),
            format!("its instance does not exist, and the Node is not deleted: {why}"),
        ),
        LifecycleAction::NotManaged { reason } => DecisionReason::new(
            "not_managed",
            format!("the provider does not manage the Node: {reason}"),
        ),
        LifecycleAction::Inconclusive(why) => {
            DecisionReason::new(why.as_str(), format!("the Node is kept: {why}"))
        }
    }
}

fn of_step(decision: &RecordedDecision<'_>, step: &Step) -> DecisionReason {
    match step {
        Step::Idle => of_idle_service(decision),
        Step::Hold { why, .. } => {
            let rule = match why {
                HoldReason::Paused => "paused",
                HoldReason::ClassNotServed => "class_not_served",
                HoldReason::TooLarge(_) => "too_large",
                HoldReason::InvalidAnnotation => "invalid_annotation",
                HoldReason::ProviderUnavailable => "provider_unavailable",
            };
            DecisionReason::new(
                rule,
                "the load balancer stays as it is; see the condition Waiting",
            )
        }
        Step::Write(patch) => DecisionReason::new("write", writes(patch)),
        Step::At(at) => DecisionReason::new(
            "wait",
            format!("the provider is at work, and is asked again at {at:.0}"),
        ),
        Step::Ensure(ensure) => DecisionReason::new(
            ensure.cause.as_str(),
            format!(
                "EnsureLoadBalancer, {}",
                ensure.prepare.as_ref().map_or_else(
                    || "no write before it".to_owned(),
                    |patch| { format!("after a write: {}", writes(patch)) }
                )
            ),
        ),
        Step::Update => DecisionReason::new("targets_changed", "UpdateLoadBalancerNodes"),
        Step::Delete { .. } => DecisionReason::new("not_wanted", "DeleteLoadBalancer"),
    }
}

fn of_idle_service(decision: &RecordedDecision<'_>) -> DecisionReason {
    let RecordedDecision::NextStep {
        service,
        facts,
        state,
        ..
    } = decision
    else {
        return DecisionReason::new("settled", "");
    };
    match facts.facts().ownership(service) {
        Ownership::Provide if state.is_refused() => DecisionReason::new(
            "refused",
            "the provider refused it, or does not manage it: nothing before the Service or the provider changes",
        ),
        Ownership::Provide | Ownership::Hold | Ownership::Cleanup => {
            DecisionReason::new("settled", "the load balancer is what the Service wants")
        }
        Ownership::Undecided => DecisionReason::new("undecided", "no provider says what it serves"),
        Ownership::Foreign => DecisionReason::new(
            "foreign",
            "another implementation's: its class is not served here, or it is cleaned up",
        ),
        Ownership::WaitOver | Ownership::Unrelated => {
            DecisionReason::new("unrelated", "it wants no load balancer")
        }
    }
}

fn of_consequence(decision: &RecordedDecision<'_>, consequence: &Consequence) -> DecisionReason {
    let (RecordedDecision::Conclude { result, .. }, patch) = (decision, &consequence.patch) else {
        return DecisionReason::new("answered", "");
    };
    let (rule, mut text) = match &**result {
        Ok(answer) => (answer.disposition.as_str(), said(answer)),
        Err(failure) => (failure.class.as_str(), failed(failure)),
    };
    if let Some(patch) = patch {
        let _ = write!(text, "; writes {}", writes(patch));
    }
    let _ = match consequence.requeue {
        None => Ok(()),
        Some(Requeue::OnChange) => text.write_str("; nothing before a change"),
        Some(Requeue::After(wait)) if wait.is_zero() => text.write_str("; decided again"),
        Some(Requeue::After(wait)) => write!(text, "; asked again in {wait:?}"),
        Some(Requeue::BackOff | Requeue::SlowBackOff) => text.write_str("; again after a back-off"),
        Some(Requeue::Stop) => text.write_str("; the process ends"),
    };
    DecisionReason { rule, text }
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

fn writes(patch: &StatusPatch) -> String {
    let mut parts = Vec::new();
    if let Some(change) = patch.finalizer {
        parts.push(format!("finalizer {change:?}").to_lowercase());
    }
    let annotations = patch.annotations.iter();
    parts.extend(annotations.map(|(key, _)| format!("annotation {key}")));
    let conditions = patch.conditions.iter();
    parts.extend(conditions.map(|change| format!("condition {}", change.kind())));
    if let Some(ingress) = &patch.ingress {
        let entries = ingress.iter();
        let entries: Vec<_> = entries
            .map(|entry| match &*entry.ip {
                "" => &*entry.hostname,
                ip => ip,
            })
            .collect();
        parts.push(match &entries[..] {
            [] => "no addresses".to_owned(),
            some => format!("addresses {}", some.join(",")),
        });
    }
    parts.join(", ")
}

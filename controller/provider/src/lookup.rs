//! Lookups of the instances of single Nodes: the request, and the checks of its answer.
//!
//! [`crate::batch`] builds its calls with it. Each Node gets one answer: a result that is missing, doubled or illegal, and
//! a machine that two Nodes of a call have, is an error of its Node. A confirmed absence counts only if the answer is
//! fresh.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use outrigger_api::{
    Method, MethodRequest,
    v1::{self, AbsenceCertainty, InstanceResult, instance_result::Outcome},
};
use outrigger_core::{
    effects::RawEffects,
    node::{
        NodeView,
        answer::{RawInstance, Rules},
        instance::{Instance, Lookup, PowerState},
        maintenance::{MaintenanceKind, PlannedMaintenance},
        ownership::ProviderIdOwner,
    },
    text,
};
use outrigger_runtime::telemetry::Repeats;
use tracing::warn;

use super::{Error, InstancesCapability, LookupPurpose, Session, wire};

pub(super) const METHOD: &Method = v1::BatchGetInstancesRequest::METHOD;
pub(super) const RPC: &str = METHOD.name;

/// The provider's answer about one Node: its instance, or a route to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAnswer<T> {
    /// The answer, or why there is none.
    pub result: Result<T, Error>,
    /// Effects that the provider wants written whatever the result is, unchecked.
    pub effects: RawEffects,
}

impl<T> From<Result<T, Error>> for NodeAnswer<T> {
    fn from(result: Result<T, Error>) -> Self {
        let beside = result.as_ref().err().and_then(Error::effects);
        Self {
            effects: beside.cloned().unwrap_or_default(),
            result,
        }
    }
}

/// The provider's answer about the instance of one Node.
pub type LookupAnswer = NodeAnswer<Lookup>;

/// A Node whose instance is looked up.
#[derive(Clone)]
pub(super) struct NodeLookup {
    pub(super) node: Arc<NodeView>,
    pub(super) purpose: LookupPurpose,
}

/// The request for a call about several Nodes.
pub(super) fn request<'a>(
    purpose: LookupPurpose,
    lookups: impl Iterator<Item = &'a NodeLookup>,
    session: &Session,
) -> v1::BatchGetInstancesRequest {
    v1::BatchGetInstancesRequest {
        context: None,
        items: lookups
            .map(|lookup| wire::asked_node(&lookup.node, session))
            .collect(),
        // Too long for the contract is as long as the contract allows.
        max_staleness: purpose.max_staleness().try_into().ok(),
        view: wire_view(purpose).into(),
    }
}

/// How much is wanted, as the contract names it.
pub(super) const fn wire_view(purpose: LookupPurpose) -> v1::InstanceView {
    match purpose {
        LookupPurpose::Initialization | LookupPurpose::Refresh { .. } => v1::InstanceView::Metadata,
        LookupPurpose::Lifecycle => v1::InstanceView::State,
    }
}

/// The answer about a node that the provider is never asked about.
pub(super) fn without_asking(node: &NodeView, instances: &InstancesCapability) -> Option<Lookup> {
    let foreign = instances.prefixes.owner(&node.provider_id) == ProviderIdOwner::Foreign;
    foreign.then(|| Lookup::NotManaged {
        reason: format!(
            "its provider ID starts with none of the provider's prefixes: {}",
            instances.prefixes
        )
        .into(),
    })
}

/// One answer for each of `lookups`, in that order, of the results of a call that took so long. A result that is missing or
/// doubled is an error of its Node, and so is a machine that two Nodes have.
pub(super) fn read_answers<'a>(
    lookups: impl Iterator<Item = &'a NodeLookup>,
    results: Vec<InstanceResult>,
    took: Duration,
    instances: &InstancesCapability,
    repeats: &Repeats,
) -> Vec<LookupAnswer> {
    let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
    for result in results {
        let name = result.key.clone();
        by_name.entry(name).or_default().push(result);
    }
    let malformed = |what: &str| Err(Error::malformed(RPC, what)).into();
    let answers = lookups.map(|lookup| {
        let mut own = by_name.remove(&*lookup.node.name).unwrap_or_default();
        match own.pop() {
            None => malformed("no result for the node"),
            Some(_) if !own.is_empty() => malformed("two results for one node"),
            Some(result) => {
                let read = read_outcome(result.outcome, lookup, took, instances, repeats);
                let answer = LookupAnswer::from(read);
                let effects = result.effects.map(wire::effects);
                LookupAnswer {
                    effects: effects.unwrap_or(answer.effects),
                    ..answer
                }
            }
        }
    });
    let mut answers: Vec<_> = answers.collect();
    refuse_shared_ids(&mut answers);
    answers
}

/// Reads one outcome. A confirmed absence that does not count is logged, once a minute.
fn read_outcome(
    outcome: Option<Outcome>,
    NodeLookup { node, purpose }: &NodeLookup,
    took: Duration,
    instances: &InstancesCapability,
    repeats: &Repeats,
) -> Result<Lookup, Error> {
    let malformed = |what| Error::malformed(RPC, what);
    match outcome.ok_or_else(|| malformed("a result without an outcome"))? {
        Outcome::Found(raw) => {
            // The node's own is as good, and its loop reports a missing one (N-31).
            let rules = instances.rules(true);
            read_instance(raw, *purpose, rules).map(|instance| Lookup::Found(Box::new(instance)))
        }
        Outcome::Absent(absent) => {
            // The provider had to ask the cloud, not a cache.
            let is_fresh = purpose.max_staleness().is_zero();
            let doubt = wire::doubt(&absent, took).filter(|_| is_fresh);
            let is_named = is_fresh && absent.certainty() == AbsenceCertainty::Confirmed;
            let confirmed = is_named && doubt.is_none();
            if let Some(error) = doubt
                && let Some(others) = repeats.due(absent.certainty().as_str_name())
            {
                warn!(
                    node = &*node.name,
                    others, error, "absence of the instance not believed; the Node is kept"
                );
            }
            Ok(Lookup::Absent { confirmed })
        }
        Outcome::NotManaged(not_managed) => Ok(Lookup::NotManaged {
            reason: text::message(&not_managed.reason).into(),
        }),
        Outcome::Error(status) => {
            let error = Error::from_item(RPC, &status);
            let error = error.unwrap_or_else(|| malformed("an error with code OK"));
            Err(error.after(took, RPC, METHOD.deadline))
        }
    }
}

/// Checks an instance. Only the fields that `purpose` asks for are read.
pub(super) fn read_instance(
    raw: v1::Instance,
    purpose: LookupPurpose,
    rules: Rules<'_>,
) -> Result<Instance, Error> {
    let power_state = match raw.power_state() {
        v1::PowerState::Unspecified => PowerState::Unknown,
        v1::PowerState::Pending => PowerState::Pending,
        v1::PowerState::Running => PowerState::Running,
        v1::PowerState::Shutdown => PowerState::Shutdown,
        v1::PowerState::Terminating => PowerState::Terminating,
    };
    let read = if purpose == LookupPurpose::Lifecycle {
        RawInstance {
            provider_id: raw.provider_id,
            power_state,
            ..RawInstance::default()
        }
    } else {
        let addresses = raw.addresses.into_iter();
        RawInstance {
            provider_id: raw.provider_id,
            node_name: raw.node_name,
            instance_type: raw.instance_type,
            addresses: addresses.map(|a| (a.r#type, a.address)).collect(),
            zone: raw.zone,
            region: raw.region,
            additional_labels: raw.additional_labels.into_iter().collect(),
            power_state,
            pod_cidrs: raw.pod_cidrs,
            planned_maintenance: raw.planned_maintenance.map(read_maintenance),
        }
    };
    read.check(rules)
        .map_err(|refusal| Error::malformed(RPC, &refusal.to_string()))
}

fn read_maintenance(raw: v1::PlannedMaintenance) -> PlannedMaintenance {
    let time = |at: prost_types::Timestamp| Timestamp::new(at.seconds, at.nanos).ok();
    PlannedMaintenance {
        kind: match raw.kind() {
            v1::MaintenanceKind::Unspecified => MaintenanceKind::Unknown,
            v1::MaintenanceKind::Reboot => MaintenanceKind::Reboot,
            v1::MaintenanceKind::Replace => MaintenanceKind::Replace,
            v1::MaintenanceKind::Retire => MaintenanceKind::Retire,
            v1::MaintenanceKind::Emergency => MaintenanceKind::Emergency,
        },
        starts_at: raw.starts_at.and_then(time),
        ends_at: raw.ends_at.and_then(time),
        id: raw.id.into(),
        in_progress: raw.in_progress,
        reason: raw.reason.into(),
    }
}

/// Two nodes with one machine: both answers are errors.
fn refuse_shared_ids(answers: &mut [LookupAnswer]) {
    let id_of = |answer: &LookupAnswer| match &answer.result {
        Ok(Lookup::Found(instance)) if !instance.provider_id.is_empty() => {
            Some(instance.provider_id.clone())
        }
        _ => None,
    };
    let mut times: HashMap<Box<str>, usize> = HashMap::new();
    for id in answers.iter().filter_map(id_of) {
        *times.entry(id).or_default() += 1;
    }
    for answer in answers {
        if let Some(id) = id_of(answer).filter(|id| times.get(id).is_some_and(|n| *n > 1)) {
            let twice = format!("provider ID {id} for two nodes");
            answer.result = Err(Error::malformed(RPC, &twice));
        }
    }
}

#[cfg(test)]
mod tests;

//! Lookups of the instances of single nodes: the request, and the checks of its answer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use outrigger_api::{
    Method, MethodRequest,
    v1::{self, AbsenceCertainty, instance_result::Outcome},
};
use outrigger_core::{
    node::{
        NodeView,
        answer::{RawInstance, Rules},
        instance::{Instance, Lookup, PowerState},
        ownership::ProviderIdOwner,
    },
    text,
};
use outrigger_runtime::telemetry::Repeats;
use tracing::warn;

use super::{Error, InstancesCapability, LookupPurpose, Session, batch::BatchAnswer, wire};

pub(super) const METHOD: &Method = v1::BatchGetInstancesRequest::METHOD;
pub(super) const RPC: &str = METHOD.name;

/// The provider's answer about one Node.
pub type LookupAnswer = BatchAnswer<Lookup>;

/// A Node whose instance is looked up.
#[derive(Clone)]
pub(super) struct NodeLookup {
    pub(super) node: Arc<NodeView>,
    pub(super) purpose: LookupPurpose,
}

/// The request for a call about several Nodes.
pub(super) fn request(
    purpose: LookupPurpose,
    lookups: &[NodeLookup],
    session: &Session,
) -> v1::BatchGetInstancesRequest {
    let items = lookups.iter();
    v1::BatchGetInstancesRequest {
        context: None,
        items: items
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

/// Reads the outcome of a call that took so long. A confirmed absence that does not count is logged, once a
/// minute.
pub(super) fn read_batch(
    outcome: Outcome,
    NodeLookup { node, purpose }: &NodeLookup,
    took: Duration,
    instances: Option<&InstancesCapability>,
    repeats: &Repeats,
) -> Result<Lookup, Error> {
    match outcome {
        Outcome::Found(raw) => {
            let instances = instances.ok_or(Error::NotOffered { rpc: RPC })?;
            let rules = Rules {
                prefixes: &instances.prefixes,
                // The node's own is as good, and its loop reports a missing one (N-31).
                empty_provider_id: true,
                forbidden: &instances.forbidden,
            };
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
        Outcome::Error(status) => Err(Error::malformed(RPC, &status.message)),
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
            planned_maintenance: raw.planned_maintenance.map(|maintenance| {
                let starts_at = maintenance.starts_at;
                let starts_at = starts_at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
                (starts_at, maintenance.reason)
            }),
        }
    };
    read.check(rules)
        .map_err(|refusal| Error::malformed(RPC, &refusal.to_string()))
}

/// Two nodes with one machine: both answers are errors.
pub(super) fn refuse_shared_ids(answers: &mut [LookupAnswer]) {
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

//! Checks of an answer about instances.

use std::{collections::HashMap, time::Duration};

use outrigger_api::v1::{self, AbsenceCertainty, instance_result::Outcome};
use outrigger_core::{
    node::{
        NodeView,
        answer::{RawInstance, Rules},
        instance::{Instance, Lookup, PowerState},
        ownership::ProviderIdOwner,
    },
    text,
};

use tracing::warn;

use super::{LookupAnswer, NodeLookup, RPC};
use crate::{Error, InstancesCapability, LookupPurpose, health::timestamp, wire};
use outrigger_runtime::telemetry::Repeats;

/// The answer about a node that the provider is never asked about.
pub(crate) fn without_asking(node: &NodeView, instances: &InstancesCapability) -> Option<Lookup> {
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
pub(crate) fn read_batch(
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
pub(crate) fn read_instance(
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
                let starts_at = maintenance.starts_at.as_ref().and_then(timestamp);
                (starts_at, maintenance.reason)
            }),
        }
    };
    read.check(rules)
        .map_err(|refusal| Error::malformed(RPC, &refusal.to_string()))
}

/// Two nodes with one machine: both answers are errors.
pub(crate) fn refuse_shared_ids(answers: &mut [LookupAnswer]) {
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

//! Checks of an answer about instances.

use std::{collections::HashMap, time::Duration};

use outrigger_api::v1::{self, AbsenceCertainty, instance_result::Outcome};
use outrigger_core::{
    effects::RawEffects,
    node::{
        NodeView,
        answer::{RawInstance, Rules},
        instance::{Instance, Lookup, PowerState},
        ownership::ProviderIdOwner,
    },
    text,
};

use super::{Error, LookupAnswer, METHOD, RPC};
use crate::provider::{InstancesCapability, LookupPurpose, wire};

/// The request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) purpose: LookupPurpose,
    /// Whether the cloud was to be asked now.
    pub(super) is_fresh: bool,
    /// How long the call took.
    pub(super) took: Duration,
}

/// One result for each node that was asked about, in that order.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) results: Vec<Result<Lookup, Error>>,
    /// Effects on each of the Nodes, in the same order, unchecked.
    pub(super) effects: Vec<RawEffects>,
    /// Reasons why a confirmed absence does not count, by the place of its node.
    pub(super) doubts: Vec<(usize, String)>,
    /// Results about other nodes.
    pub(super) strays: usize,
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

/// Reads an answer. A missing, doubled, incomplete or illegal item is an error of that node.
pub(super) fn read<'a>(
    answer: v1::BatchGetInstancesResponse,
    nodes: impl ExactSizeIterator<Item = &'a NodeView>,
    asked: Asked,
    instances: Option<&InstancesCapability>,
) -> Read {
    let nodes: Vec<&NodeView> = nodes.collect();
    let places: HashMap<&str, usize> = nodes.iter().map(|node| &*node.name).zip(0..).collect();
    let mut results: Vec<Option<Result<Lookup, Error>>> = nodes.iter().map(|_| None).collect();
    let mut effects = vec![RawEffects::default(); nodes.len()];
    let mut strays = 0;
    let mut has_unnamed = false;
    let mut doubts = Vec::new();
    for result in answer.results {
        let Some(at) = places.get(&*result.key).copied() else {
            strays += 1;
            has_unnamed |= result.key.is_empty();
            continue;
        };
        if let Some(Outcome::Absent(absent)) = &result.outcome
            && asked.is_fresh
            && let Some(doubt) = wire::doubt(absent, asked.took)
        {
            doubts.push((at, doubt));
        }
        let (read, wanted) = match results[at] {
            None => read_one(result, asked, instances),
            Some(_) => (
                Err(malformed("two results for one node")),
                RawEffects::default(),
            ),
        };
        results[at] = Some(read);
        effects[at] = wanted;
    }
    let missing = if has_unnamed {
        "no result for the node, but one whose node_name is empty"
    } else {
        "no result for the node"
    };
    let results = results
        .into_iter()
        .map(|result| result.unwrap_or_else(|| Err(malformed(missing))))
        .collect();
    Read {
        results: refuse_shared_ids(results),
        effects,
        doubts,
        strays,
    }
}

fn read_one(
    result: v1::InstanceResult,
    asked: Asked,
    instances: Option<&InstancesCapability>,
) -> (Result<Lookup, Error>, RawEffects) {
    let mut answer = LookupAnswer::from(read_outcome(result.outcome, asked, instances));
    if let Some(effects) = result.effects {
        answer.effects = wire::effects(effects);
    }
    (answer.result, answer.effects)
}

fn read_outcome(
    outcome: Option<Outcome>,
    asked: Asked,
    instances: Option<&InstancesCapability>,
) -> Result<Lookup, Error> {
    match outcome {
        None => Err(malformed("a result without an outcome")),
        Some(Outcome::Found(raw)) => {
            let instances = instances.ok_or(Error::NotOffered { rpc: RPC })?;
            let rules = Rules {
                prefixes: &instances.prefixes,
                // The node's own is as good, and its loop reports a missing one (N-31).
                empty_provider_id: true,
                forbidden: &instances.forbidden,
            };
            read_instance(raw, asked.purpose, rules).map(|found| Lookup::Found(Box::new(found)))
        }
        Some(Outcome::Absent(absent)) => Ok(Lookup::Absent {
            confirmed: asked.is_fresh
                && absent.certainty() == AbsenceCertainty::Confirmed
                && wire::doubt(&absent, asked.took).is_none(),
        }),
        Some(Outcome::Error(status)) => {
            let error = Error::from_item(RPC, &status)
                .unwrap_or_else(|| malformed("an error with code OK"));
            let deadline = METHOD.deadline;
            Err(error.after(asked.took, RPC, deadline))
        }
        Some(Outcome::NotManaged(not_managed)) => Ok(Lookup::NotManaged {
            reason: text::message(&not_managed.reason).into(),
        }),
    }
}

/// Checks an instance. Of a view, only what it asks for is read.
pub(in super::super) fn read_instance(
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
        }
    };
    read.check(rules)
        .map_err(|refusal| malformed(&refusal.to_string()))
}

/// Two nodes with one machine: both answers are errors.
fn refuse_shared_ids(mut results: Vec<Result<Lookup, Error>>) -> Vec<Result<Lookup, Error>> {
    let id_of = |result: &Result<Lookup, Error>| match result {
        Ok(Lookup::Found(found)) if !found.provider_id.is_empty() => {
            Some(found.provider_id.clone())
        }
        _ => None,
    };
    let mut times: HashMap<Box<str>, usize> = HashMap::new();
    for id in results.iter().filter_map(id_of) {
        *times.entry(id).or_default() += 1;
    }
    for result in &mut results {
        if let Some(id) = id_of(result).filter(|id| times.get(id).is_some_and(|n| *n > 1)) {
            let id = text::message(&id);
            *result = Err(malformed(&format!("provider ID {id} for two nodes")));
        }
    }
    results
}

fn malformed(what: &str) -> Error {
    Error::Malformed {
        rpc: RPC,
        what: text::message(what).into(),
    }
}

#[cfg(test)]
mod tests;

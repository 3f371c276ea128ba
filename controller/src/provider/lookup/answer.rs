//! What an answer about instances is worth.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use outrigger_api::v1::{self, AbsenceCertainty, instance_result::Outcome};
use outrigger_core::{
    answer::{RawInstance, Rules},
    instance::{Instance, Lookup, PowerState},
    node::NodeView,
    ownership::Ownership,
};

use super::{BatchGetInstances, Error, Unary};
use crate::provider::{Instances, Purpose, health::timestamp, text};

/// How far an absence may lie outside of its call. Both ends read the clock of one machine, some
/// through a coarse or rounded view of it; much more would let an old answer pass for a new one.
const SLACK: SignedDuration = SignedDuration::from_millis(100);

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) purpose: Purpose,
    /// When the call began, if nothing older was wanted.
    pub(super) fresh_since: Option<Timestamp>,
    /// When it ended.
    pub(super) until: Timestamp,
}

/// One result for each node that was asked about, in that order.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) results: Vec<Result<Lookup, Error>>,
    /// Results about other nodes.
    pub(super) strays: usize,
}

impl Read {
    /// See [`Error::speaks_for_all`].
    pub(super) fn speaks_for_all(&self) -> Option<&Error> {
        let none_answered = self.results.iter().all(Result::is_err);
        let mut errors = self
            .results
            .iter()
            .filter_map(|result| result.as_ref().err());
        errors.find(|error| error.speaks_for_all(none_answered))
    }
}

/// The answer about a node that the provider is never asked about.
pub(super) fn without_asking(node: &NodeView, instances: &Instances) -> Option<Lookup> {
    let foreign = instances.prefixes.ownership(&node.provider_id) == Ownership::Foreign;
    foreign.then(|| Lookup::NotManaged {
        reason: "its provider ID starts with none of the provider's prefixes".into(),
    })
}

/// Reads an answer. What is missing, doubled, incomplete or illegal is an error of that node.
pub(super) fn read<'a>(
    answer: v1::BatchGetInstancesResponse,
    nodes: impl ExactSizeIterator<Item = &'a NodeView>,
    asked: Asked,
    instances: Option<&Instances>,
) -> Read {
    let nodes: Vec<&NodeView> = nodes.collect();
    let places: HashMap<&str, usize> = nodes.iter().map(|node| &*node.name).zip(0..).collect();
    let mut results: Vec<Option<Result<Lookup, Error>>> = nodes.iter().map(|_| None).collect();
    let mut strays = 0;
    for result in answer.results {
        let Some(at) = places.get(&*result.node_name).copied() else {
            strays += 1;
            continue;
        };
        results[at] = Some(match results[at] {
            None => read_one(result.outcome, asked, instances),
            Some(_) => Err(malformed("two results for one node")),
        });
    }
    let results = results
        .into_iter()
        .map(|result| result.unwrap_or_else(|| Err(malformed("no result for the node"))))
        .collect();
    Read {
        results: refuse_shared_ids(results),
        strays,
    }
}

fn read_one(
    outcome: Option<Outcome>,
    asked: Asked,
    instances: Option<&Instances>,
) -> Result<Lookup, Error> {
    match outcome {
        None => Err(malformed("a result without an outcome")),
        Some(Outcome::Found(raw)) => {
            let instances = instances.ok_or(Error::NotOffered {
                rpc: BatchGetInstances::NAME,
            })?;
            let rules = Rules {
                prefixes: &instances.prefixes,
                // The node's own is as good, and its loop says it if there is none (N-31).
                empty_provider_id: true,
            };
            read_instance(raw, asked.purpose, rules).map(|found| Lookup::Found(Box::new(found)))
        }
        Some(Outcome::Absent(absent)) => Ok(Lookup::Absent {
            confirmed: is_confirmed(&absent, asked),
        }),
        Some(Outcome::Error(status)) => {
            let error = Error::from_item(BatchGetInstances::NAME, &status);
            Err(error.unwrap_or_else(|| malformed("an error with code OK")))
        }
        Some(Outcome::NotManaged(not_managed)) => Ok(Lookup::NotManaged {
            reason: text::message(&not_managed.reason).into(),
        }),
    }
}

/// Whether an absence is more than a cache's or a young instance's.
fn is_confirmed(absent: &v1::InstanceAbsent, asked: Asked) -> bool {
    let observed = absent.observed_at.as_ref().and_then(timestamp);
    let (Some(since), Some(observed)) = (asked.fresh_since, observed) else {
        return false;
    };
    absent.certainty() == AbsenceCertainty::Confirmed
        && since.duration_since(observed) <= SLACK
        && observed.duration_since(asked.until) <= SLACK
}

/// Checks an instance. Of a view, only what it asks for is read.
pub(in super::super) fn read_instance(
    raw: v1::Instance,
    purpose: Purpose,
    rules: Rules<'_>,
) -> Result<Instance, Error> {
    let power_state = match raw.power_state() {
        v1::PowerState::Unspecified => PowerState::Unknown,
        v1::PowerState::Pending => PowerState::Pending,
        v1::PowerState::Running => PowerState::Running,
        v1::PowerState::Shutdown => PowerState::Shutdown,
        v1::PowerState::Terminating => PowerState::Terminating,
    };
    let observed_at = raw.observed_at.as_ref().and_then(timestamp);
    let read = if purpose == Purpose::Lifecycle {
        RawInstance {
            provider_id: raw.provider_id,
            power_state,
            observed_at,
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
            observed_at,
        }
    };
    read.check(rules)
        .map_err(|refusal| malformed(&refusal.to_string()))
}

/// Of two nodes that are told to be one machine, neither is believed.
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
        rpc: BatchGetInstances::NAME,
        what: text::message(what).into(),
    }
}

#[cfg(test)]
mod tests;

//! The response of `BatchGetInstances`, from the vendor's answers: in the order of the request, without answers to Nodes
//! that it does not name. A Node that the vendor left out has no result, which the controller takes for an error of that
//! Node.

use outrigger_api::v1::{
    BatchGetInstancesResponse, InstanceResult, instance_result::Outcome as Wire,
};

use crate::{Error, Lookup, Lookups, Outcome};

/// The response to a batch about `keys`, in their order.
pub(super) fn respond(keys: Vec<String>, mut answers: Lookups) -> BatchGetInstancesResponse {
    let result = |key: String| {
        let answer = answers.remove(&key)?;
        Some(result(key, answer))
    };
    BatchGetInstancesResponse {
        results: keys.into_iter().filter_map(result).collect(),
    }
}

fn result(key: String, answer: Result<Lookup, Error>) -> InstanceResult {
    let (outcome, effects) = match answer {
        Ok(lookup) => {
            let outcome = match lookup.outcome {
                Outcome::Found(instance) => Wire::Found(instance),
                Outcome::Absent(absent) => Wire::Absent(absent),
                Outcome::NotManaged(not_managed) => Wire::NotManaged(not_managed),
            };
            (outcome, lookup.effects)
        }
        Err(error) => {
            let (status, effects) = error.into_item();
            (Wire::Error(status), effects)
        }
    };
    InstanceResult {
        key,
        outcome: Some(outcome),
        effects,
    }
}

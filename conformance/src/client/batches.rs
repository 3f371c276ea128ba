//! Lookups of several Nodes: exactly one result for each.

use outrigger_api::{
    MethodRequest as _,
    v1::{BatchGetInstancesRequest, InstanceResult, instance_result::Outcome},
};

use super::Client;
use crate::call_error::CallError;
use crate::verdict::{Verdict, expect, failed};

/// The outcome for a Node, or its error.
pub type Answered = Result<Outcome, CallError>;

const RPC: &str = BatchGetInstancesRequest::METHOD.name;

impl Client {
    /// The results as they came.
    pub async fn results(
        &self,
        request: BatchGetInstancesRequest,
    ) -> Result<Vec<InstanceResult>, CallError> {
        let results = self.call(request).await?.results;
        for result in &results {
            self.ledger.see_result(RPC, result);
        }
        Ok(results)
    }

    /// The outcomes in the order of the Nodes, or the error of the call. A failure unless each has one result,
    /// with an outcome, and nothing else has.
    pub async fn batch(
        &self,
        request: BatchGetInstancesRequest,
    ) -> Verdict<Result<Vec<Answered>, CallError>> {
        let keys = request.items.iter().map(|item| item.name.clone());
        let keys: Vec<_> = keys.collect();
        match self.results(request).await {
            Ok(results) => one_each(&keys, results).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}

fn one_each(keys: &[String], mut results: Vec<InstanceResult>) -> Verdict<Vec<Answered>> {
    let mut answered = Vec::with_capacity(keys.len());
    for key in keys {
        let expected = format!("{RPC} has one result for {key:?}, with an outcome");
        let of_it = results.extract_if(.., |one| one.key == *key);
        let mut of_it: Vec<_> = of_it.collect();
        let [result] = &mut *of_it else {
            return Err(failed(expected, format!("{} results", of_it.len())));
        };
        answered.push(match result.outcome.take() {
            Some(Outcome::Error(status)) => Err(CallError::of_item(RPC, &status)),
            Some(outcome) => Ok(outcome),
            None => return Err(failed(expected, "a result without an outcome")),
        });
    }
    let foreign = results.first().map(|result| &result.key);
    expect(
        foreign.is_none(),
        format!("{RPC} has no result for a Node that was not asked about"),
        format!("one for {foreign:?}"),
    )?;
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use outrigger_api::{RpcStatus, v1::Absent};

    use super::*;

    fn judge(keys: &[&str], results: Vec<InstanceResult>) -> Verdict<usize> {
        let keys: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
        one_each(&keys, results).map(|answered| answered.len())
    }

    #[test]
    fn each_item_has_one_result_with_an_outcome_in_any_order() {
        let absent =
            |key: &str| InstanceResult::new(key.to_owned(), Outcome::Absent(Absent::default()));
        let failed =
            |key: &str| InstanceResult::new(key.to_owned(), Outcome::Error(RpcStatus::default()));
        let empty = InstanceResult {
            key: "a".to_owned(),
            ..InstanceResult::default()
        };
        assert_eq!(judge(&["a", "b"], vec![failed("b"), absent("a")]), Ok(2));
        for wrong in [
            vec![absent("a")],
            vec![absent("a"), absent("b"), failed("b")],
            vec![absent("a"), absent("b"), absent("c")],
            vec![empty, absent("b")],
        ] {
            assert!(judge(&["a", "b"], wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}

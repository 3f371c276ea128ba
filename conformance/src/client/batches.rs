//! Batches: exactly one result for each item.

use futures::stream;
use outrigger_api::{BatchRequest, ItemResult};

use super::Client;
use crate::call_error::CallError;
use crate::verdict::{Verdict, expect, failed};

/// The outcome of an item, or its error.
pub type Answered<R> = Result<<<R as BatchRequest>::ItemResult as ItemResult>::Outcome, CallError>;

impl Client {
    /// The results as they came.
    pub async fn results<R: BatchRequest>(
        &self,
        request: R,
    ) -> Result<Vec<R::ItemResult>, CallError> {
        let method = R::METHOD;
        let deadline = method.deadline_of(request.items().len());
        let request = stream::iter([self.in_cluster(request)]);
        let answers = self.exchange(method, deadline, request).await?;
        let mut results: Vec<_> = answers.into_iter().flat_map(R::results).collect();
        for result in &mut results {
            self.ledger.see_result(method.name, result);
        }
        Ok(results)
    }

    /// The outcomes in the order of the items, or the error of the call. A failure unless each item has one result,
    /// with an outcome, and nothing else has.
    pub async fn batch<R: BatchRequest>(
        &self,
        request: R,
    ) -> Verdict<Result<Vec<Answered<R>>, CallError>> {
        let keys = request.items().iter().map(|item| R::key(item).to_owned());
        let keys: Vec<_> = keys.collect();
        match self.results(request).await {
            Ok(results) => one_each(R::METHOD.name, &keys, results).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}

fn one_each<R: ItemResult>(
    rpc: &'static str,
    keys: &[String],
    mut results: Vec<R>,
) -> Verdict<Vec<Result<R::Outcome, CallError>>> {
    let mut answered = Vec::with_capacity(keys.len());
    for key in keys {
        let expected = format!("{rpc} has one result for {key:?}, with an outcome");
        let of_it = results.extract_if(.., |one| one.key() == key);
        let mut of_it: Vec<_> = of_it.collect();
        let [result] = &mut *of_it else {
            return Err(failed(expected, format!("{} results", of_it.len())));
        };
        let error = result.error();
        let error = error.map(|status| CallError::of_item(rpc, status));
        let outcome = result.outcome_mut().take();
        let outcome = outcome.ok_or_else(|| failed(expected, "a result without an outcome"))?;
        answered.push(error.map_or(Ok(outcome), Err));
    }
    let foreign = results.first().map(ItemResult::key);
    expect(
        foreign.is_none(),
        format!("{rpc} has no result for an item that was not asked about"),
        format!("one for {:?}", foreign.unwrap_or_default()),
    )?;
    Ok(answered)
}

#[cfg(test)]
mod tests;

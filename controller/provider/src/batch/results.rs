//! Checks of the results of a call about several Nodes.

use std::{collections::HashMap, time::Duration};

use outrigger_api::v1::{InstanceResult, instance_result::Outcome};
use outrigger_core::effects::RawEffects;

use crate::{
    Error,
    lookup::{METHOD, RPC},
    wire,
};

/// The provider's answer about one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAnswer<T> {
    /// The answer, or why there is none.
    pub result: Result<T, Error>,
    /// Effects that the provider wants written whatever the result is, unchecked.
    pub effects: RawEffects,
}

impl<T> From<Result<T, Error>> for BatchAnswer<T> {
    fn from(result: Result<T, Error>) -> Self {
        let beside = result.as_ref().err().and_then(Error::effects);
        Self {
            effects: beside.cloned().unwrap_or_default(),
            result,
        }
    }
}

/// One answer for each of `keys`, in that order: the outcome, unless it is an error. A missing or doubled result is
/// an error of its Node. Also returns the number of results about others.
pub(crate) fn one_each(
    keys: &[&str],
    results: Vec<InstanceResult>,
    took: Duration,
) -> (Vec<BatchAnswer<Outcome>>, usize) {
    let malformed = |what: &str| Err(Error::malformed(RPC, what));
    let places: HashMap<&str, usize> = keys.iter().copied().zip(0..).collect();
    let mut answers: Vec<Option<BatchAnswer<Outcome>>> = keys.iter().map(|_| None).collect();
    let mut strays = 0;
    for result in results {
        let place = places.get(&*result.key);
        let Some(answer) = place.and_then(|at| answers.get_mut(*at)) else {
            strays += 1;
            continue;
        };
        if answer.is_some() {
            *answer = Some(malformed("two results for one node").into());
            continue;
        }
        let mut read = BatchAnswer::from(read_outcome(result.outcome, took));
        if let Some(effects) = result.effects {
            read.effects = wire::effects(effects);
        }
        *answer = Some(read);
    }
    let missing = || malformed("no result for the node").into();
    let answers = answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(missing));
    (answers.collect(), strays)
}

/// The outcome of a result in an answer to a call that took so long, unless it is an error.
fn read_outcome(outcome: Option<Outcome>, took: Duration) -> Result<Outcome, Error> {
    match outcome {
        Some(Outcome::Error(status)) => {
            let error = Error::from_item(RPC, &status);
            let error = error.unwrap_or_else(|| Error::malformed(RPC, "an error with code OK"));
            Err(error.after(took, RPC, METHOD.deadline))
        }
        Some(outcome) => Ok(outcome),
        None => Err(Error::malformed(RPC, "a result without an outcome")),
    }
}

/// The error of a Node that holds for the whole class of calls, if there is one: see
/// [`Error::speaks_for_all`]. `errors` has one entry for each Node; none: it has its answer.
pub(crate) fn speaks_for_all<'a>(
    errors: impl Iterator<Item = Option<&'a Error>> + Clone,
) -> Option<&'a Error> {
    let none_answered = errors.clone().all(|error| error.is_some());
    errors
        .flatten()
        .find(|error| error.speaks_for_all(none_answered))
}

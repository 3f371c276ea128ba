//! Checks of the results of a call about several objects.

use std::{collections::HashMap, time::Duration};

use outrigger_api::{ItemResult, Method};
use outrigger_core::effects::RawEffects;

use crate::{Error, wire};

/// The provider's answer about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAnswer<T> {
    /// The object as asked for, or why it is not known.
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
/// an error of its object. Also returns the number of results about other objects.
pub(crate) fn one_each<R: ItemResult>(
    method: &'static Method,
    kind: &str,
    keys: &[String],
    results: Vec<R>,
    took: Duration,
) -> (Vec<BatchAnswer<R::Outcome>>, usize) {
    let malformed = |what: String| Err(Error::malformed(method.name, &what));
    let places: HashMap<&str, usize> = keys.iter().map(|key| &**key).zip(0..).collect();
    let mut answers: Vec<Option<BatchAnswer<R::Outcome>>> = keys.iter().map(|_| None).collect();
    let mut strays = 0;
    let mut has_unnamed = false;
    for mut result in results {
        let place = places.get(result.key());
        let Some(answer) = place.and_then(|at| answers.get_mut(*at)) else {
            strays += 1;
            has_unnamed |= result.key().is_empty();
            continue;
        };
        if answer.is_some() {
            *answer = Some(malformed(format!("two results for one {kind}")).into());
            continue;
        }
        let effects = result.effects_mut().and_then(Option::take);
        let mut read = BatchAnswer::from(read_outcome(method, &mut result, took));
        if let Some(effects) = effects {
            read.effects = wire::effects(effects);
        }
        *answer = Some(read);
    }
    let but = if has_unnamed {
        ", but one whose key is empty"
    } else {
        ""
    };
    let missing = || malformed(format!("no result for the {kind}{but}")).into();
    let answers = answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(missing));
    (answers.collect(), strays)
}

/// The outcome of a result in an answer to a call that took so long, unless it is an error.
pub(crate) fn read_outcome<R: ItemResult>(
    method: &'static Method,
    result: &mut R,
    took: Duration,
) -> Result<R::Outcome, Error> {
    let rpc = method.name;
    if let Some(status) = result.error() {
        let error = Error::from_item(rpc, status);
        let error = error.unwrap_or_else(|| Error::malformed(rpc, "an error with code OK"));
        return Err(error.after(took, rpc, method.deadline));
    }
    let outcome = result.outcome_mut().take();
    outcome.ok_or_else(|| Error::malformed(rpc, "a result without an outcome"))
}

/// The error of an object that holds for the whole class of calls, if there is one: see
/// [`Error::speaks_for_all`]. `errors` has one entry for each object; none: it has its answer.
pub(crate) fn speaks_for_all<'a>(
    errors: impl Iterator<Item = Option<&'a Error>> + Clone,
) -> Option<&'a Error> {
    let none_answered = errors.clone().all(|error| error.is_some());
    errors
        .flatten()
        .find(|error| error.speaks_for_all(none_answered))
}

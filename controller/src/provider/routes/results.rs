//! Checks of the results of a batch.

use std::collections::HashMap;

use outrigger_api::v1::{self, route_result::Outcome};
use outrigger_core::{fault::Excerpt, route::ObservedRoute, text};

use super::{RouteAnswer, message, pending::RouteChange};
use crate::provider::{Error, wire};

/// One answer for each change, in that order.
#[derive(Debug)]
pub(super) struct ReadResults {
    pub(super) answers: Vec<RouteAnswer>,
    /// Results about other routes.
    pub(super) strays: usize,
}

/// Reads the results for `changes`. A missing, doubled or illegal one is an error of that route.
pub(super) fn read(results: Vec<v1::RouteResult>, changes: &[&RouteChange]) -> ReadResults {
    let keys: Vec<_> = changes.iter().map(|change| change.message()).collect();
    let places: HashMap<&str, usize> = keys
        .iter()
        .map(|key| &*key.destination_cidr)
        .zip(0..)
        .collect();
    let mut answers: Vec<Option<RouteAnswer>> = vec![None; changes.len()];
    let mut strays = 0;
    for result in results {
        let Some(at) = places.get(&*result.key).copied() else {
            strays += 1;
            continue;
        };
        let change = changes[at];
        answers[at] = Some(match answers[at] {
            None => read_one(change, result),
            Some(_) => malformed(change, "two results for one route").into(),
        });
    }
    let answers = answers.into_iter().zip(changes).map(|(answer, change)| {
        answer.unwrap_or_else(|| malformed(change, "no result for the route").into())
    });
    ReadResults {
        answers: answers.collect(),
        strays,
    }
}

fn read_one(change: &RouteChange, result: v1::RouteResult) -> RouteAnswer {
    let ended = match result.outcome {
        None => Err(malformed(change, "a result without an outcome")),
        Some(Outcome::Error(status)) => {
            let error = Error::from_item(change.rpc(), &status);
            Err(error.unwrap_or_else(|| malformed(change, "an error with code OK")))
        }
        Some(outcome) => changed(change, outcome),
    };
    let mut answer = ended.map_or_else(RouteAnswer::from, |route| RouteAnswer {
        result: Ok(route),
        effects: <_>::default(),
    });
    if let Some(effects) = result.effects {
        answer.effects = wire::effects(effects);
    }
    answer
}

/// The route that was made or deleted, which the provider may show once it is made. Whether it leads to its Node is
/// for the loop to tell.
fn changed(change: &RouteChange, outcome: Outcome) -> Result<ObservedRoute, Error> {
    let (wanted, shown) = match (change, outcome) {
        (RouteChange::Delete(route), Outcome::Absent(_)) => return Ok(route.clone()),
        (RouteChange::Create(wanted), Outcome::Found(shown)) if shown == v1::Route::default() => {
            return Ok(wanted.as_made());
        }
        (RouteChange::Create(wanted), Outcome::Found(shown)) => (wanted, shown),
        (RouteChange::Create(_), _) => return Err(malformed(change, "made, but not found")),
        (RouteChange::Delete(_), _) => return Err(malformed(change, "deleted, but not absent")),
    };
    let made = message::raw(shown)
        .check()
        .map_err(|fault| malformed(change, &fault.to_string()))?;
    if made.destination() != wanted.destination {
        let shown = Excerpt::of(&made.raw().destination_cidr);
        let what = format!("made, but shown as the route to {shown}");
        return Err(malformed(change, &what));
    }
    Ok(made)
}

fn malformed(change: &RouteChange, what: &str) -> Error {
    Error::Malformed {
        rpc: change.rpc(),
        what: text::message(what).into(),
    }
}

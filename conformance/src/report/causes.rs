//! Faults that many cases fail by, so that a report says first what to mend first.

use std::collections::HashMap;

use outrigger_api::METHODS;

use super::{Judged, Outcome};
use crate::{subject::RUNS_ON, verdict::Failure};

/// One fault, and the cases that fail by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause<'a> {
    /// The first failure by it.
    pub failure: &'a Failure,
    /// Ids of all cases that fail by it, in the order of the run.
    pub cases: Vec<&'static str>,
}

/// Two cases may fail alike by chance.
const MANY: usize = 3;

/// A property of a failure that others by the same fault have too.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Sign {
    /// The answer of a call, such as an error.
    Answer(String),
    /// The check that did not hold.
    Check(String),
}

/// The faults that three cases or more fail by, the one with most cases first. Before them is the end of the provider, by
/// which all that follows may fail.
///
/// Failures are of one fault if a call was answered alike, or if the same check does not hold. Names, numbers and
/// addresses, which differ from case to case, are not compared.
pub fn causes(judged: &[Judged]) -> Vec<Cause<'_>> {
    let mut failures: Vec<_> = judged.iter().filter_map(failure).collect();
    let mut causes = Vec::new();
    let end = Sign::Check(RUNS_ON.to_owned());
    let has_ended = failures.iter().any(|(_, _, signs)| signs.contains(&end));
    let mut next = has_ended.then_some(end);
    while let Some(sign) = next.take().or_else(|| most_frequent(&failures)) {
        let by_it = failures.extract_if(.., |(_, _, signs)| signs.contains(&sign));
        let (cases, failures_by_it): (Vec<_>, Vec<_>) =
            by_it.map(|(case, failure, _)| (case, failure)).unzip();
        if let Some(failure) = failures_by_it.first() {
            causes.push(Cause { failure, cases });
        }
    }
    causes
}

fn failure(judged: &Judged) -> Option<(&'static str, &Failure, Vec<Sign>)> {
    let Outcome::Failed { failure, .. } = &judged.outcome else {
        return None;
    };
    let names_a_call = METHODS.iter().any(|one| failure.actual.contains(one.name));
    let answer = names_a_call.then(|| Sign::Answer(without_numbers(&failure.actual)));
    let check = Sign::Check(without_numbers(&without_quotes(&failure.expected)));
    let signs = answer.into_iter().chain([check]).collect();
    Some((judged.case.id, failure, signs))
}

/// The sign that most failures have, if they are many; of several the one that came first.
fn most_frequent(failures: &[(&'static str, &Failure, Vec<Sign>)]) -> Option<Sign> {
    let signs = || failures.iter().flat_map(|(_, _, signs)| signs);
    let mut counts: HashMap<&Sign, usize> = HashMap::new();
    for sign in signs() {
        *counts.entry(sign).or_default() += 1;
    }
    // The last of equals is the greatest.
    let most = signs().rev().max_by_key(|sign| counts[sign])?;
    (counts[most] >= MANY).then(|| most.clone())
}

/// Leaves out each word with a digit: a name of the suite, an address, an amount.
fn without_numbers(text: &str) -> String {
    let words = text.split_whitespace();
    let words = words.filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Leaves out what is between quotes.
fn without_quotes(text: &str) -> String {
    text.split('"').step_by(2).collect()
}

#[cfg(test)]
mod tests;

//! For people: a line for each case as it ends, and a summary.

use std::fmt::Write as _;

use super::{Judged, Outcome, Report, Skip};
use crate::{case::Level, verdict::Failure};

/// The line of a case that was selected. The summary counts the others.
pub fn line(judged: &Judged, colour: bool) -> Option<String> {
    let Judged {
        case,
        outcome,
        seconds,
    } = judged;
    let paint = |text: &str| {
        if !colour {
            return text.to_owned();
        }
        let code = match outcome {
            Outcome::Passed { .. } => 32,
            Outcome::Failed { .. } if case.level == Level::Must => 31,
            Outcome::Failed { .. } | Outcome::Waived { .. } => 33,
            Outcome::Skipped(_) => 90,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    };
    let word = paint(&format!("{:<7}", outcome.word(case.level)));
    let mut text = format!("{word} {:<7} {:<6} {}", case.id, case.level, case.title);
    let mut detail = |name: &str, value: &str| {
        let _ = write!(text, "\n        {name:<9} {value}");
    };
    match outcome {
        Outcome::Passed { needless } => {
            if let Some(waiver) = needless {
                detail("waiver", &format!("not needed: {}", waiver.reason));
            }
            if *seconds >= 1.0 {
                let _ = write!(text, " ({seconds:.1} s)");
            }
        }
        Outcome::Failed { failure, expired } => {
            detail("expected", &failure.expected);
            detail("actual", &failure.actual);
            detail("clause", &case.clause.to_string());
            if let Some(waiver) = expired {
                let (reason, owner) = (&waiver.reason, &waiver.owner);
                let until = waiver.expires;
                detail("waiver", &format!("ended on {until} ({owner}): {reason}"));
            }
        }
        Outcome::Waived { failure, waiver } => {
            detail("expected", &failure.expected);
            detail("actual", &failure.actual);
            let (reason, owner) = (&waiver.reason, &waiver.owner);
            let until = waiver.expires;
            detail("waiver", &format!("until {until} ({owner}): {reason}"));
        }
        Outcome::Skipped(Skip::NotSelected) => return None,
        Outcome::Skipped(skip) => detail("because", &skip.to_string()),
    }
    Some(text)
}

/// Failures that share a text from this number on have a cause outside of their cases.
const MANY: usize = 3;

/// The failure that most cases share, and their number: one broken `GetStatus` fails each case that begins with it.
fn common_cause(report: &Report) -> Option<(&Failure, usize)> {
    let mut counts: Vec<(&Failure, usize)> = Vec::new();
    for judged in &report.judged {
        let Outcome::Failed { failure, .. } = &judged.outcome else {
            continue;
        };
        match counts.iter_mut().find(|(other, _)| *other == failure) {
            Some((_, count)) => *count += 1,
            None => counts.push((failure, 1)),
        }
    }
    // Ties go to the first that was run.
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
    (most.1 >= MANY).then_some(most)
}

/// The last lines: how many cases ended how, and what is left in the cloud.
pub fn summary(report: &Report) -> String {
    let counts = report.counts();
    let mut parts = vec![format!("{} passed", counts.passed)];
    for (count, text) in [
        (counts.failed, "failed"),
        (counts.warned, "with a warning (SHOULD)"),
        (counts.noted, "with a note (INFO)"),
        (counts.waived, "waived"),
        (counts.undeclared, "skipped: capability not declared"),
        (counts.without_input, "skipped: input missing"),
        (counts.read_only, "skipped: without --allow-mutations"),
        (counts.nothing_to_judge, "skipped: nothing to judge"),
        (counts.not_selected, "not selected"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {text}"));
        }
    }
    let mut text = format!(
        "{} {}: {} cases in {:.1} s: {}",
        report.provider,
        report.provider_version,
        report.judged.len(),
        report.seconds,
        parts.join(", ")
    );
    if let Some((failure, count)) = common_cause(report) {
        let _ = write!(
            text,
            "\n{count} of the failures are one; mend it first: expected {}; actual {}",
            failure.expected, failure.actual
        );
    }
    for leftover in &report.leftovers {
        let _ = write!(text, "\nleft in the cloud: {leftover}");
    }
    if !report.leftovers.is_empty() {
        let run = &report.run_id;
        let _ = write!(
            text,
            "\nremove it: provider-conformance sweep --run-id {run}"
        );
    }
    text
}

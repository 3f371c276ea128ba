//! For people: a line for each case as it ends, and a summary.

use std::fmt::Write as _;

use super::{Cause, Judged, Outcome, Report, Skip, causes};
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
                detail("waiver", &format!("ended on {waiver}"));
            }
        }
        Outcome::Waived { failure, waiver } => {
            detail("expected", &failure.expected);
            detail("actual", &failure.actual);
            detail("waiver", &format!("until {waiver}"));
        }
        Outcome::Skipped(Skip::NotSelected) => return None,
        Outcome::Skipped(skip) => detail("because", &skip.to_string()),
    }
    Some(text)
}

/// The last lines: what many failures come from, how many cases ended how, and what is left in the cloud.
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
    let mut lines: Vec<_> = causes(&report.judged).iter().map(cause).collect();
    lines.push(format!(
        "{} {}: {} cases in {:.1} s: {}",
        report.provider,
        report.provider_version,
        report.judged.len(),
        report.seconds,
        parts.join(", ")
    ));
    lines.extend(leftovers(report));
    lines.join("\n")
}

fn cause(cause: &Cause<'_>) -> String {
    let Cause { failure, cases } = cause;
    let Failure { expected, actual } = failure;
    let ids = cases.join(" ");
    let count = match cases.len() {
        1 => "1 case fails".to_owned(),
        many => format!("{many} cases fail"),
    };
    format!(
        "{count} by this, mend it first: {ids}\n        expected  {expected}\n        actual    {actual}"
    )
}

fn leftovers(report: &Report) -> Option<String> {
    let mut text = String::new();
    for leftover in &report.leftovers {
        let _ = writeln!(text, "left in the cloud: {leftover}");
    }
    let run = &report.run_id;
    let _ = write!(text, "remove it: provider-conformance sweep --run-id {run}");
    (!report.leftovers.is_empty()).then_some(text)
}

//! For people: a line for each case as it ends, and a summary.

use std::fmt::Write as _;

use super::{Judged, Outcome, Report, Skip};

/// The line of a case that was selected. The summary counts the others.
pub fn line(judged: &Judged) -> Option<String> {
    let Judged {
        case,
        outcome,
        seconds,
    } = judged;
    let word = outcome.word(case.level);
    let mut text = format!("{word:<7} {:<7} {:<6} {}", case.id, case.level, case.title);
    let mut detail = |name: &str, value: &str| {
        let _ = write!(text, "\n        {name:<9} {value}");
    };
    match outcome {
        Outcome::Passed if *seconds >= 1.0 => {
            let _ = write!(text, " ({seconds:.1} s)");
        }
        Outcome::Passed => {}
        Outcome::Failed(failure) => {
            detail("expected", &failure.expected);
            detail("actual", &failure.actual);
            detail("clause", &case.clause.to_string());
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

/// The last lines: how many cases ended how, and what is left in the cloud.
pub fn summary(report: &Report) -> String {
    let counts = report.counts();
    let mut parts = vec![format!("{} passed", counts.passed)];
    for (count, text) in [
        (counts.failed, "failed"),
        (counts.warned, "with a warning (SHOULD)"),
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
    for leftover in &report.leftovers {
        let _ = write!(text, "\nleft in the cloud: {leftover}");
    }
    if !report.leftovers.is_empty() {
        let uid = &report.cluster_uid;
        let _ = write!(
            text,
            "\nremove it: cloud-controller-manager sweep --cluster-uid {uid} --without-kubeconfig --yes"
        );
    }
    text
}

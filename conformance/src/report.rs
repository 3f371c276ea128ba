//! The result of a run, and its forms: text for people, `JUnit` XML for CI.

mod junit;

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::{
    case::{Case, Level},
    verdict::Failure,
    waivers::Waiver,
};

pub use junit::junit;

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// UID of the cluster that the suite pretended to be.
    pub cluster_uid: String,
    /// `HandshakeResponse.provider_name`.
    pub provider: String,
    /// `HandshakeResponse.provider_version`.
    pub provider_version: String,
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub seconds: f64,
    /// Every case that there is, in the order of the run.
    pub judged: Vec<Judged>,
    /// Objects that are left in the cloud.
    pub leftovers: Vec<String>,
}

/// A case with its outcome.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The case.
    pub case: Case,
    /// The outcome.
    pub outcome: Outcome,
    /// How long it took.
    pub seconds: f64,
}

/// The end of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider does as the contract says.
    Passed,
    /// It does not.
    Failed(Failure),
    /// It does not, and that is known.
    Waived {
        /// The difference.
        failure: Failure,
        /// Why it is accepted.
        waiver: Waiver,
    },
    /// The case was not run.
    Skipped(Skip),
}

/// Why a case was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The provider does not declare this field.
    Capability(&'static str),
    /// The inputs lack these keys.
    Input(String),
    /// It would change the cloud.
    ReadOnly,
    /// `--only` leaves it out.
    NotSelected,
    /// The run showed nothing to judge.
    NothingToJudge(String),
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed, of level MUST.
    pub failed: usize,
    /// Failed, of level SHOULD.
    pub warned: usize,
    /// Failed and waived.
    pub waived: usize,
    /// Skipped: not declared.
    pub undeclared: usize,
    /// Skipped: an input is missing.
    pub without_input: usize,
    /// Skipped: without `--allow-mutations`.
    pub read_only: usize,
    /// Skipped: nothing to judge.
    pub nothing_to_judge: usize,
    /// Skipped: not selected.
    pub not_selected: usize,
}

impl Report {
    /// How many cases ended how.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for Judged { case, outcome, .. } in &self.judged {
            *match outcome {
                Outcome::Passed => &mut counts.passed,
                Outcome::Failed(_) => match case.level {
                    Level::Must => &mut counts.failed,
                    Level::Should => &mut counts.warned,
                },
                Outcome::Waived { .. } => &mut counts.waived,
                Outcome::Skipped(Skip::Capability(_)) => &mut counts.undeclared,
                Outcome::Skipped(Skip::Input(_)) => &mut counts.without_input,
                Outcome::Skipped(Skip::ReadOnly) => &mut counts.read_only,
                Outcome::Skipped(Skip::NothingToJudge(_)) => &mut counts.nothing_to_judge,
                Outcome::Skipped(Skip::NotSelected) => &mut counts.not_selected,
            } += 1;
        }
        counts
    }

    /// Ids of the cases that failed, whatever their level.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self.judged.iter();
        let failed = failed.filter(|one| matches!(one.outcome, Outcome::Failed(_)));
        failed.map(|one| one.case.id).collect()
    }
}

impl Outcome {
    /// One word, as reports have it.
    pub const fn word(&self, level: Level) -> &'static str {
        match (self, level) {
            (Self::Passed, _) => "passed",
            (Self::Failed(_), Level::Must) => "failed",
            (Self::Failed(_), Level::Should) => "warning",
            (Self::Waived { .. }, _) => "waived",
            (Self::Skipped(_), _) => "skipped",
        }
    }
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Capability(by) => write!(f, "the provider does not declare {by}"),
            Self::Input(keys) => write!(f, "the inputs have no {keys}"),
            Self::ReadOnly => write!(f, "changes the cloud; allow it with --allow-mutations"),
            Self::NotSelected => write!(f, "not selected by --only"),
            Self::NothingToJudge(reason) => write!(f, "{reason}"),
        }
    }
}

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

#[cfg(test)]
mod tests;

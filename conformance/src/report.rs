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

impl Report {
    /// How many cases ended so: one of the words of the summary.
    pub fn count(&self, end: &str) -> usize {
        let ends = self
            .judged
            .iter()
            .map(|one| one.outcome.end(one.case.level));
        ends.filter(|one| *one == end).count()
    }

    /// Ids of the cases that failed, whatever their level.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self.judged.iter();
        let failed = failed.filter(|one| matches!(one.outcome, Outcome::Failed(_)));
        failed.map(|one| one.case.id).collect()
    }
}

impl Outcome {
    /// The end of a case in the words of the summary, which begin with one for its line.
    pub const fn end(&self, level: Level) -> &'static str {
        match (self, level) {
            (Self::Passed, _) => "passed",
            (Self::Failed(_), Level::Must) => "failed",
            (Self::Failed(_), Level::Should) => "warning (SHOULD)",
            (Self::Waived { .. }, _) => "waived",
            (Self::Skipped(Skip::Capability(_)), _) => "skipped: capability not declared",
            (Self::Skipped(Skip::Input(_)), _) => "skipped: input missing",
            (Self::Skipped(Skip::ReadOnly), _) => "skipped: without --allow-mutations",
            (Self::Skipped(Skip::NothingToJudge(_)), _) => "skipped: nothing to judge",
            (Self::Skipped(Skip::NotSelected), _) => "not selected",
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
    let end = outcome.end(case.level);
    let word = end.split([' ', ':']).next().unwrap_or(end);
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
    let mut ends = vec!["passed", "failed", "warning (SHOULD)", "waived"];
    for one in &report.judged {
        let end = one.outcome.end(one.case.level);
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    let parts = ends.into_iter().map(|end| (report.count(end), end));
    let parts = parts.filter(|(count, end)| *count > 0 || *end == "passed");
    let parts: Vec<_> = parts.map(|(count, end)| format!("{count} {end}")).collect();
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
mod tests {
    use super::*;
    use crate::cases;

    fn report() -> Report {
        let all = cases::all();
        let of = |level: Level| {
            all.iter()
                .find(|case| case.level == level)
                .cloned()
                .unwrap()
        };
        let failure = Failure {
            expected: "<a> & \"b\"".to_owned(),
            actual: "c\u{1b}[31m".to_owned(),
        };
        let waiver = Waiver {
            case: "x".to_owned(),
            reason: "r".to_owned(),
            owner: "o".to_owned(),
            expires: jiff::civil::date(2027, 1, 31),
        };
        let failed = |failure: &Failure| Outcome::Failed(failure.clone());
        let judged = [
            (of(Level::Must), Outcome::Passed),
            (of(Level::Must), failed(&failure)),
            (of(Level::Should), failed(&failure)),
            (
                of(Level::Must),
                Outcome::Waived {
                    failure: failure.clone(),
                    waiver,
                },
            ),
            (of(Level::Must), Outcome::Skipped(Skip::ReadOnly)),
            (of(Level::Must), Outcome::Skipped(Skip::NotSelected)),
        ];
        let judged = judged.into_iter().map(|(case, outcome)| Judged {
            case,
            outcome,
            seconds: 0.5,
        });
        Report {
            judged: judged.collect(),
            leftovers: vec!["a load balancer".to_owned()],
            cluster_uid: "abc".to_owned(),
            ..Report::default()
        }
    }

    #[test]
    fn each_case_is_counted_once() {
        let text = summary(&report());
        for part in [
            "6 cases",
            "1 passed, 1 failed, 1 warning (SHOULD), 1 waived, 1 skipped: without --allow-mutations, 1 not selected",
            "sweep --cluster-uid abc",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_waiver_says_until_when_in_each_report() {
        let report = report();
        let until = "until 2027-01-31 (o): r";
        assert!(line(&report.judged[3]).unwrap().contains(until));
        assert!(junit(&report).unwrap().contains(&format!("waived {until}")));
    }

    #[test]
    fn a_line_has_all_that_is_needed_to_mend_a_failure() {
        let report = report();
        let text = line(&report.judged[1]).unwrap();
        let clause = report.judged[1].case.clause.text;
        for part in ["failed", "MUST", "expected", "<a>", "actual", clause] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(line(&report.judged[5]).is_none());
    }

    #[test]
    fn junit_counts_only_a_must_as_a_failure_and_is_xml() {
        let text = junit(&report()).unwrap();
        assert!(text.contains("tests=\"6\" failures=\"1\""), "{text}");
        assert_eq!(text.matches("<failure ").count(), 1, "{text}");
        assert_eq!(text.matches("<skipped ").count(), 3, "{text}");
        assert!(
            text.contains("&lt;a&gt; &amp;") && !text.contains('\u{1b}'),
            "{text}"
        );
        let mut reader = quick_xml::Reader::from_str(&text);
        while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
    }
}

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

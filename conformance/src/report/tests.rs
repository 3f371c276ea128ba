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
    let failed = |failure: &Failure| Outcome::Failed {
        failure: failure.clone(),
        expired: None,
    };
    let judged = [
        (of(Level::Must), Outcome::Passed { needless: None }),
        (of(Level::Must), failed(&failure)),
        (of(Level::Should), failed(&failure)),
        (of(Level::Info), failed(&failure)),
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
        run_id: "abc".to_owned(),
        ..Report::default()
    }
}

#[test]
fn each_case_is_counted_once() {
    let counts = report().counts();
    let expected = Counts {
        passed: 1,
        failed: 1,
        warned: 1,
        noted: 1,
        waived: 1,
        read_only: 1,
        not_selected: 1,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    let text = summary(&report());
    assert!(
        text.contains("7 cases") && text.contains("sweep --run-id abc"),
        "{text}"
    );
}

#[test]
fn a_cause_of_many_failures_stands_once_and_first() {
    let mut report = report();
    let ids: Vec<_> = report.judged[1..4].iter().map(|one| one.case.id).collect();
    let ids = ids.join(" ");
    let text = summary(&report);
    let first = format!("3 cases fail by this, mend it first: {ids}\n        expected  <a>");
    assert!(text.starts_with(&first), "{text}");
    let text = junit(&report).unwrap();
    let (before, _) = text.split_once("<testcase").unwrap();
    assert!(
        before.contains("value=\"3 cases fail by this, mend it first: expected: &lt;a&gt;"),
        "{text}"
    );
    assert!(before.contains(&ids), "{text}");
    let document = json(&report);
    assert_eq!(document["causes"][0]["failure"]["expected"], "<a> & \"b\"");
    assert_eq!(document["causes"][0]["cases"].as_array().unwrap().len(), 3);
    report.judged.remove(1);
    assert!(
        !summary(&report).contains("mend it first"),
        "two may be by chance"
    );
    assert!(!junit(&report).unwrap().contains("<properties"));
}

#[test]
fn a_waiver_says_until_when_in_each_report_and_why_once_it_has_ended() {
    let mut report = report();
    let until = "until 2027-01-31 (o): r";
    assert!(line(&report.judged[4], false).unwrap().contains(until));
    assert!(junit(&report).unwrap().contains(&format!("waived {until}")));
    assert_eq!(json(&report)["cases"][4]["waiver"]["expires"], "2027-01-31");
    let Outcome::Waived { failure, waiver } = report.judged[4].outcome.clone() else {
        panic!("the fifth is waived");
    };
    report.judged[4].outcome = Outcome::Failed {
        failure,
        expired: Some(waiver),
    };
    let ended = "ended on 2027-01-31 (o): r";
    assert!(line(&report.judged[4], false).unwrap().contains(ended));
    assert!(
        junit(&report)
            .unwrap()
            .contains(&format!("waiver: {ended}"))
    );
    let document = json(&report);
    assert_eq!(document["cases"][4]["result"], "failed");
    assert_eq!(document["cases"][4]["waiver"]["reason"], "r");
}

#[test]
fn a_line_has_all_that_is_needed_to_mend_a_failure() {
    let report = report();
    let text = line(&report.judged[1], false).unwrap();
    let clause = report.judged[1].case.clause.text;
    for part in ["failed", "MUST", "expected", "<a>", "actual", clause] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(line(&report.judged[6], false).is_none());
}

#[test]
fn junit_counts_only_a_must_as_a_failure_and_is_xml() {
    let text = junit(&report()).unwrap();
    assert!(text.contains("tests=\"7\" failures=\"1\""), "{text}");
    assert_eq!(text.matches("<failure ").count(), 1, "{text}");
    assert_eq!(text.matches("<skipped ").count(), 3, "{text}");
    assert!(
        text.contains("&lt;a&gt; &amp;") && !text.contains('\u{1b}'),
        "{text}"
    );
    let mut reader = quick_xml::Reader::from_str(&text);
    while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
}

#[test]
fn json_has_every_case() {
    let document = json(&report());
    assert_eq!(document["cases"].as_array().unwrap().len(), 7);
    assert_eq!(document["cases"][1]["result"], "failed");
    assert_eq!(document["cases"][1]["failure"]["expected"], "<a> & \"b\"");
    assert_eq!(document["counts"]["failed"], 1);
    assert_eq!(document["format"], FORMAT);
}

use super::*;
use crate::cases;

fn judged(failures: &[(&str, &str)]) -> Vec<Judged> {
    let judged = cases::all().into_iter().zip(failures);
    let judged = judged.map(|(case, (expected, actual))| Judged {
        case,
        outcome: Outcome::Failed {
            failure: Failure {
                expected: (*expected).to_owned(),
                actual: (*actual).to_owned(),
            },
            expired: None,
        },
        seconds: 0.0,
    });
    judged.collect()
}

/// The first failure of each cause, and how many cases it has.
fn first_failures(failures: &[(&str, &str)]) -> Vec<(String, usize)> {
    let judged = judged(failures);
    let causes = causes(&judged);
    let causes = causes.iter();
    causes
        .map(|one| (one.failure.expected.clone(), one.cases.len()))
        .collect()
}

#[test]
fn one_error_of_a_call_is_one_cause_whatever_the_case_expects() {
    let error = "GetStatus: INTERNAL, no ErrorInfo: \"request 17: boom\"";
    let again = "GetStatus: INTERNAL, no ErrorInfo: \"request 18: boom\"";
    let other = "GetStatus: UNAVAILABLE, no ErrorInfo: \"no cloud\"";
    let failures = [
        ("a connection that was idle is open", error),
        ("GetStatus is answered", again),
        ("the call after a cancelled one is answered", error),
        ("GetStatus has a time", other),
    ];
    let first = "a connection that was idle is open".to_owned();
    assert_eq!(first_failures(&failures), [(first, 3)]);
}

#[test]
fn one_check_that_does_not_hold_is_one_cause_whatever_it_is_about() {
    let failures = [
        (
            "the list has one load balancer of conformance-x-lbs-03-0",
            "0",
        ),
        ("the revision \"never\" is not known", "it is held"),
        (
            "the list has one load balancer of conformance-x-lbs-04-0",
            "2",
        ),
        ("the revision \"never-synced\" is not known", "it is held"),
        (
            "the list has one load balancer of conformance-x-res-19-0",
            "0",
        ),
        ("the revision \"only-in-one\" is not known", "it is held"),
        ("the revision \"never\" is not known", "it is held"),
    ];
    assert_eq!(
        first_failures(&failures),
        [
            ("the revision \"never\" is not known".to_owned(), 4),
            (failures[0].0.to_owned(), 3)
        ]
    );
}

#[test]
fn failures_that_are_alike_by_chance_are_no_cause() {
    assert!(first_failures(&[("a is answered", "0"), ("a is answered", "1")]).is_empty());
    let equal_and_no_call = [("a", "it is not"), ("b", "it is not"), ("c", "it is not")];
    assert!(first_failures(&equal_and_no_call).is_empty());
    let mut passed = judged(&[("a", "b"), ("a", "b"), ("a", "b")]);
    passed[1].outcome = Outcome::Passed { needless: None };
    assert!(causes(&passed).is_empty());
}

#[test]
fn the_end_of_the_provider_is_the_first_cause_also_of_one_case() {
    let check = "GetStatus has a time";
    let end = "its process ended: exit status: 1; the case expects: GetStatus is answered, and saw: a closed connection";
    let failures = [
        (check, "none"),
        (check, "none"),
        (RUNS_ON, end),
        (check, "none"),
    ];
    let expected = [(RUNS_ON.to_owned(), 1), (check.to_owned(), 3)];
    assert_eq!(first_failures(&failures), expected);
}

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan};

use super::{Counts, DeletionLimiter, DeletionLimits, DeletionRefusal, Doubt, Release};

const MINUTE: i64 = 60;

fn at(seconds: i64) -> Timestamp {
    "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap() + seconds.seconds()
}

/// A limiter for which one answer is enough.
fn quick() -> DeletionLimiter {
    DeletionLimiter::new(DeletionLimits {
        confirm: 1,
        ..DeletionLimits::default()
    })
}

fn name(number: usize) -> Arc<str> {
    format!("n{number}").into()
}

/// Something that happens to a limiter.
type Happens = fn(&mut DeletionLimiter);

impl DeletionLimiter {
    fn absence(
        &mut self,
        seconds: i64,
        number: usize,
        nodes: usize,
    ) -> Result<Release, DeletionRefusal> {
        self.absent(at(seconds), &name(number), nodes, Duration::ZERO, false)
    }

    fn absence_confirmed(
        &mut self,
        seconds: i64,
        number: usize,
    ) -> Result<Release, DeletionRefusal> {
        self.absent(at(seconds), &name(number), 100, Duration::ZERO, true)
    }

    /// Nodes that are absent, one look each.
    fn lose(&mut self, seconds: i64, numbers: std::ops::Range<usize>, nodes: usize) {
        for number in numbers {
            let _ = self.absence(seconds, number, nodes);
        }
    }
}

fn limit_exceeded(since: i64) -> Result<Release, DeletionRefusal> {
    let until = at(since + 5 * MINUTE);
    Err(DeletionRefusal::LimitExceeded { until })
}

const MAJORITY: Result<Release, DeletionRefusal> =
    Err(DeletionRefusal::AwaitsOperator(Doubt::Majority));
const FINDS_NONE: Result<Release, DeletionRefusal> =
    Err(DeletionRefusal::AwaitsOperator(Doubt::FindsNone));
const WITHIN: Result<Release, DeletionRefusal> = Ok(Release::WithinLimit);
const SECOND_LOOK: Result<Release, DeletionRefusal> = Ok(Release::SecondLook);

#[test]
fn as_many_as_the_limit_says_are_allowed_and_then_none() {
    for (nodes, limit) in [
        (8, 3),
        (30, 3),
        // Not four and a half.
        (45, 4),
        (100, 10),
        (5_000, 500),
    ] {
        let mut limiter = quick();
        for number in 0..limit {
            assert_eq!(
                limiter.absence(0, number, nodes),
                WITHIN,
                "{number} of {nodes}"
            );
            // Once is once.
            assert_eq!(
                limiter.absence(1, number, nodes),
                WITHIN,
                "{number} of {nodes}"
            );
        }
        assert_eq!(
            limiter.absence(2, limit, nodes),
            limit_exceeded(2),
            "{nodes}"
        );
        // Neither are those that were allowed and are not gone yet.
        assert_eq!(limiter.absence(3, 0, nodes), limit_exceeded(0), "{nodes}");
    }
}

#[test]
fn limits_are_what_the_flags_say() {
    let limits = |burst, fraction| DeletionLimits {
        burst,
        fraction,
        confirm: 1,
        ..DeletionLimits::default()
    };
    for (limits, nodes, allowed) in [
        (limits(0, 0.0), 10, 0),
        (limits(1, 0.0), 10, 1),
        (limits(0, 0.2), 10, 2),
        (limits(2, 1.0), 10, 10),
        (limits(2, f64::NAN), 10, 2),
    ] {
        let mut limiter = DeletionLimiter::new(limits.clone());
        limiter.lose(0, 0..allowed, nodes);
        for number in 0..allowed {
            assert_eq!(limiter.absence(0, number, nodes), WITHIN, "{limits:?}");
        }
        if allowed < nodes {
            assert_ne!(limiter.absence(0, allowed, nodes), WITHIN, "{limits:?}");
        }
    }
}

#[test]
fn one_answer_is_not_enough() {
    let mut limiter = DeletionLimiter::new(DeletionLimits {
        confirm: 3,
        ..DeletionLimits::default()
    });
    let again = |seconds| Err(DeletionRefusal::LookAgain { at: at(seconds) });
    assert_eq!(limiter.absence(0, 1, 10), again(5));
    // Too early to count.
    assert_eq!(limiter.absence(4, 1, 10), again(5));
    assert_eq!(limiter.absence(6, 1, 10), again(11));
    assert_eq!(limiter.absence(11, 1, 10), WITHIN);
    // Not for an operator either: the annotation allows the deletion, and confirms no absence.
    assert_eq!(limiter.absence_confirmed(11, 2), again(16));
}

#[test]
fn an_answer_in_between_restarts_the_row() {
    let again = |seconds| Err(DeletionRefusal::LookAgain { at: at(seconds) });
    let cases: [(&str, Happens); 4] = [
        ("found", |limiter| limiter.found(at(3), "n1")),
        ("ready", |limiter| limiter.ready("n1")),
        ("dismissed", |limiter| limiter.dismiss("n1")),
        ("not sure", |limiter| limiter.unconfirm("n1")),
    ];
    for (between, happens) in cases {
        let mut limiter = DeletionLimiter::new(DeletionLimits::default());
        assert_eq!(limiter.absence(0, 1, 10), again(5));
        happens(&mut limiter);
        assert_eq!(limiter.absence(6, 1, 10), again(11), "{between}");
        assert_eq!(limiter.absence(11, 1, 10), WITHIN, "{between}");
    }
}

/// A contradiction, whichever loop asked, and though its answer may be from a cache.
#[test]
fn an_answer_to_the_other_loop_restarts_the_row_except_for_an_operator() {
    let contradicted = |seconds| Err(DeletionRefusal::Contradicted { at: at(seconds) });
    let mut limiter = DeletionLimiter::new(DeletionLimits::default());
    limiter.absence(0, 1, 10).unwrap_err();
    for seconds in [3, 9, 15] {
        limiter.found_lately(at(seconds), "n1");
        let looked = seconds + 3;
        assert_eq!(limiter.absence(looked, 1, 10), contradicted(looked + 5));
    }
    // The absences that the provider confirmed are as many as an operator's confirmation needs.
    let by_operator = limiter.absent(at(19), &name(1), 10, Duration::ZERO, true);
    assert_eq!(by_operator, Ok(Release::Operator));
    assert!(
        limiter.contradiction("n1").is_some(),
        "an answer is missing"
    );
    assert_eq!(limiter.absence(23, 1, 10), WITHIN);
    assert_eq!(limiter.contradiction("n1"), None);
    // Another client may clear the annotation, or the machine be found again, before it is deleted.
    limiter.found_lately(at(24), "n1");
    let again = DeletionRefusal::Contradicted { at: at(28) };
    assert_eq!(limiter.contradiction("n1"), Some(again));
    // The second look is taken one window after the first absence that still counts.
    let mut limiter = quick();
    limiter.lose(0, 0..11, 100);
    limiter.found_lately(at(100), "n10");
    assert_eq!(limiter.absence(200, 10, 100), limit_exceeded(200));
    assert_eq!(limiter.absence(300, 10, 100), limit_exceeded(200));
}

#[test]
fn doubt_begins_the_window_anew_too() {
    let mut limiter = quick();
    limiter.lose(0, 0..11, 100);
    limiter.found(at(1), "n99");
    limiter.unconfirm("n10");
    assert_eq!(limiter.absence(60, 10, 100), limit_exceeded(60));
    assert_eq!(limiter.absence(300, 10, 100), limit_exceeded(60));
    assert_eq!(limiter.absence(300, 9, 100), SECOND_LOOK);
}

#[test]
fn a_second_look_one_window_later_allows_deletions() {
    let mut limiter = quick();
    limiter.lose(0, 0..30, 100);
    limiter.found(at(1), "n99");
    assert_eq!(limiter.absence(299, 29, 100), limit_exceeded(0));
    for number in 0..30 {
        assert_eq!(limiter.absence(300, number, 100), SECOND_LOOK);
        limiter.removed(at(301), &name(number));
    }
    // A node that is lost later has a second look of its own.
    assert_eq!(limiter.absence(310, 30, 70), limit_exceeded(310));
    assert_eq!(limiter.absence(601, 30, 70), WITHIN);
}

#[test]
fn a_provider_that_finds_nothing_is_not_believed() {
    let mut limiter = quick();
    limiter.found(at(0), "n99");
    limiter.lose(1, 0..11, 100);
    assert_eq!(limiter.absence(301, 10, 100), FINDS_NONE);
    assert_eq!(limiter.absence(3_000, 10, 100), FINDS_NONE);
    limiter.found_lately(at(3_001), "n50");
    assert_eq!(limiter.absence(3_002, 10, 100), SECOND_LOOK);
    // Found in the same second.
    let mut limiter = quick();
    limiter.found(at(1), "n99");
    limiter.lose(1, 0..11, 100);
    assert_eq!(limiter.absence(301, 10, 100), SECOND_LOOK);
}

#[test]
fn more_than_half_is_for_an_operator_to_decide() {
    for (lost, nodes, held) in [
        // Few in number: the burst is meant for small clusters.
        (1, 1, false),
        (3, 3, false),
        (4, 4, true),
        (4, 7, true),
        (4, 8, false),
        (50, 100, false),
        (51, 100, true),
        (100, 100, true),
    ] {
        let mut limiter = quick();
        limiter.lose(0, 0..lost, nodes);
        limiter.found(at(1), "other");
        let count = limiter.count(at(1), nodes);
        assert_eq!(
            count.awaiting_operator,
            if held { lost } else { 0 },
            "{lost} of {nodes}"
        );
        for number in 0..lost {
            let said = limiter.absence(3_000, number, nodes);
            assert_eq!(said == MAJORITY, held, "{lost} of {nodes}: {said:?}");
        }
    }
}

/// Otherwise half of a cluster would go as soon as the first deletions are forgotten, or new nodes join.
#[test]
fn nodes_that_await_an_operator_do_so_until_one_confirms() {
    let mut limiter = quick();
    for number in 0..10 {
        assert_eq!(limiter.absence(0, number, 100), WITHIN);
        limiter.removed(at(0), &name(number));
    }
    limiter.lose(1, 10..51, 90);
    limiter.found(at(2), "n99");
    assert_eq!(limiter.count(at(2), 90).awaiting_operator, 41);
    assert_eq!(limiter.absence(3_000, 50, 90), MAJORITY);
    assert_eq!(limiter.absence(3_000, 50, 900), MAJORITY);
    // Until the node comes back, or an operator says so.
    limiter.found(at(3_001), "n50");
    assert_eq!(limiter.absence(3_002, 50, 900), WITHIN);
    assert_eq!(limiter.absence_confirmed(3_002, 49), Ok(Release::Operator));
    assert_eq!(limiter.absence(3_003, 48, 900), MAJORITY);
    // An answer that confirms nothing does not.
    limiter.unconfirm("n48");
    assert_eq!(limiter.absence(3_004, 48, 900), MAJORITY);
}

#[test]
fn a_limit_that_is_switched_off_keeps_all_nodes_and_counts() {
    let mut limiter = DeletionLimiter::new(DeletionLimits {
        enabled: false,
        confirm: 1,
        ..DeletionLimits::default()
    });
    assert_eq!(limiter.absence(0, 1, 10), Err(DeletionRefusal::Off));
    assert_eq!(limiter.absence_confirmed(0, 1), Err(DeletionRefusal::Off));
    assert_eq!(limiter.count(at(0), 10).absent, 1);
}

#[test]
fn a_deleted_node_counts_for_one_window() {
    let mut limiter = quick();
    for number in 0..3 {
        assert_eq!(limiter.absence(0, number, 20), WITHIN);
        limiter.removed(at(number as i64), &name(number));
    }
    // Ready when another client deleted it: no sign of a cloud that forgets.
    limiter.ready("n7");
    limiter.removed(at(3), "n7");
    let expected = Counts {
        nodes: 20,
        absent: 0,
        awaiting_operator: 0,
        absent_while_ready: 0,
        deleted: 3,
        limit: 3.0,
    };
    assert_eq!(limiter.count(at(299), 17), expected);
    assert_eq!(limiter.absence(299, 4, 17), limit_exceeded(299));
    assert!(limiter.count(at(299), 17).is_exceeded());
    // The first deletion is forgotten.
    assert_eq!(limiter.count(at(300), 17).deleted, 2);
    assert_eq!(limiter.absence(300, 4, 17), WITHIN);
    assert_eq!(limiter.count(at(302), 17).deleted, 0);
}

/// A provider that denies nodes whose kubelets are alive is not to be trusted about the others.
#[test]
fn contradictions_count_against_the_provider() {
    let mut limiter = quick();
    for number in 1..=10 {
        limiter.absent_while_ready(at(0), &name(number));
    }
    assert_eq!(limiter.absence(1, 0, 100), limit_exceeded(1));
    assert_eq!(limiter.count(at(1), 100).absent_while_ready, 10);
    // That a node is ready is what makes it one.
    limiter.ready("n1");
    assert_eq!(limiter.count(at(1), 100).absent_while_ready, 10);
    limiter.found_lately(at(2), "n1");
    assert_eq!(limiter.absence(2, 0, 100), WITHIN);

    for number in 1..=60 {
        limiter.absent_while_ready(at(3), &name(number));
    }
    assert_eq!(limiter.absence(4, 0, 100), MAJORITY);
    // The cloud did not lose them, so the deletions are released once the window is over.
    for number in 1..=60 {
        limiter.found_lately(at(5), &name(number));
    }
    assert_eq!(limiter.absence(6, 0, 100), WITHIN);
}

#[test]
fn a_contradiction_ends_with_the_nodes_readiness_or_lapses() {
    let mut limiter = quick();
    limiter.absent_while_ready(at(0), &name(1));
    assert_eq!(limiter.absence(1, 1, 10), WITHIN);
    // Reported late: the absence that is confirmed stays.
    limiter.absent_while_ready(at(2), &name(1));
    let count = limiter.count(at(2), 10);
    assert_eq!((count.absent, count.absent_while_ready), (1, 0));

    limiter.absent_while_ready(at(0), &name(2));
    assert_eq!(limiter.count(at(599), 10).absent_while_ready, 1);
    // Each such answer counts.
    limiter.absent_while_ready(at(599), &name(2));
    assert_eq!(limiter.count(at(1_198), 10).absent_while_ready, 1);
    assert_eq!(limiter.count(at(1_199), 10).absent_while_ready, 0);
}

/// The caller's count of nodes may lag behind.
#[test]
fn there_are_no_fewer_nodes_than_absent_ones() {
    let mut limiter = quick();
    limiter.lose(0, 0..5, 0);
    assert_eq!(limiter.count(at(0), 0).nodes, 5);
}

#[test]
fn memory_is_bounded() {
    let mut limiter = quick();
    for round in 0..100 {
        let now = round * 5 * MINUTE;
        for number in 0..3 {
            limiter.absence(now, number, 10).unwrap();
            limiter.removed(at(now), &name(number));
        }
    }
    assert_eq!(limiter.deleted.len(), 3);
    assert!(limiter.absent.is_empty());
}

/// A clock that is set back makes it wait longer, never shorter.
#[test]
fn a_clock_that_goes_back_lets_nothing_go() {
    let mut limiter = DeletionLimiter::new(DeletionLimits::default());
    limiter.absence(0, 1, 10).unwrap_err();
    limiter.absence(-3_600, 1, 10).unwrap_err();
    assert_eq!(limiter.absence(6, 1, 10), WITHIN);
}

#[test]
fn reasons_are_sentences_and_labels() {
    for (refusal, label, text) in [
        (
            DeletionRefusal::LookAgain { at: at(5) },
            "look_again",
            "the provider is asked once more at 2026-11-21T10:00:05Z",
        ),
        (
            DeletionRefusal::Contradicted { at: at(5) },
            "contradicted",
            "the provider has found the instance since it first said that there is none, so its answers in a row are \
             counted again; an operator who knows better labels the node with outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true",
        ),
        (
            DeletionRefusal::Off,
            "off",
            "deletion is switched off (--node-deletion-enabled=false)",
        ),
        (
            DeletionRefusal::LimitExceeded {
                until: at(300) + Duration::from_millis(120),
            },
            "limit_exceeded",
            "too many nodes are absent together; a second look at 2026-11-21T10:05:00Z decides",
        ),
        (
            DeletionRefusal::AwaitsOperator(Doubt::Majority),
            "majority_absent",
            "more than half of the provider's nodes are absent; it stays until an operator labels it with outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true",
        ),
        (
            DeletionRefusal::AwaitsOperator(Doubt::FindsNone),
            "finds_none",
            "many nodes are absent, and the provider finds no instance of any node; it stays until an operator labels it with outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true",
        ),
    ] {
        assert_eq!((refusal.as_str(), &*refusal.to_string()), (label, text));
    }
    let releases = [Release::WithinLimit, Release::SecondLook, Release::Operator];
    assert_eq!(
        releases.map(Release::as_str),
        ["within_limit", "second_look", "operator"]
    );
}

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan};

use super::{Absent, Counts, DeletionLimiter, DeletionLimits, DeletionRefusal, Release};

const MINUTE: i64 = 60;

fn at(seconds: i64) -> Timestamp {
    "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap() + seconds.seconds()
}

/// A limiter for which one answer is enough.
fn quick() -> DeletionLimiter {
    sure(DeletionLimits {
        confirm: 1,
        ..DeletionLimits::default()
    })
}

/// A limiter that knows of another node.
fn sure(limits: DeletionLimits) -> DeletionLimiter {
    let mut limiter = DeletionLimiter::new(limits);
    limiter.found(at(1_000_000), &"other".into());
    limiter
}

fn absent(nodes: usize) -> Absent {
    Absent {
        nodes,
        more_answers: 0,
        lasting: Duration::ZERO,
        is_announced: false,
        is_labelled: false,
    }
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
        self.absent(at(seconds), &name(number), absent(nodes))
    }

    /// With the label of an operator.
    fn labelled(&mut self, seconds: i64, number: usize) -> Result<Release, DeletionRefusal> {
        let node = Absent {
            is_labelled: true,
            ..absent(100)
        };
        self.absent(at(seconds), &name(number), node)
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

const MAJORITY: Result<Release, DeletionRefusal> = Err(DeletionRefusal::Majority);
const FINDS_NONE: Result<Release, DeletionRefusal> = Err(DeletionRefusal::FindsNone);
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
        let mut limiter = sure(limits.clone());
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
    let mut limiter = sure(DeletionLimits {
        confirm: 3,
        ..DeletionLimits::default()
    });
    let again = |seconds| Err(DeletionRefusal::LookAgain { at: at(seconds) });
    assert_eq!(limiter.absence(0, 1, 10), again(5));
    // Too early to count.
    assert_eq!(limiter.absence(4, 1, 10), again(5));
    assert_eq!(limiter.absence(6, 1, 10), again(11));
    assert_eq!(limiter.absence(11, 1, 10), WITHIN);
    // Not for an operator either: the label allows the deletion, and confirms no absence.
    assert_eq!(limiter.absence(11, 2, 10), again(16));
    assert_eq!(limiter.labelled(16, 2), again(21));
}

#[test]
fn an_answer_in_between_restarts_the_row() {
    let again = |seconds| Err(DeletionRefusal::LookAgain { at: at(seconds) });
    let cases: [(&str, Happens); 4] = [
        ("found", |limiter| limiter.found(at(3), &name(1))),
        ("ready", |limiter| limiter.ready("n1")),
        ("dismissed", |limiter| limiter.dismiss("n1")),
        ("not sure", |limiter| limiter.unconfirm("n1")),
    ];
    for (between, happens) in cases {
        let mut limiter = sure(DeletionLimits::default());
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
    let mut limiter = sure(DeletionLimits::default());
    limiter.absence(0, 1, 10).unwrap_err();
    for seconds in [3, 9, 15] {
        limiter.found_lately("n1");
        let looked = seconds + 3;
        assert_eq!(limiter.absence(looked, 1, 10), contradicted(looked + 5));
    }
    // The absences that the provider confirmed are as many as an operator's confirmation needs.
    assert_eq!(limiter.labelled(19, 1), Ok(Release::Operator));
    assert!(
        limiter.contradiction("n1").is_some(),
        "an answer is missing"
    );
    assert_eq!(limiter.absence(23, 1, 10), WITHIN);
    assert_eq!(limiter.contradiction("n1"), None);
    // Another client may clear the annotation, or the machine be found again, before it is deleted.
    limiter.found_lately("n1");
    let again = DeletionRefusal::Contradicted { at: at(28) };
    assert_eq!(limiter.contradiction("n1"), Some(again));
    // The second look is taken one window after the first absence that still counts.
    let mut limiter = quick();
    limiter.lose(0, 0..11, 100);
    limiter.found_lately("n10");
    assert_eq!(limiter.absence(200, 10, 100), limit_exceeded(200));
    assert_eq!(limiter.absence(300, 10, 100), limit_exceeded(200));
}

#[test]
fn doubt_begins_the_window_anew_too() {
    let mut limiter = quick();
    limiter.lose(0, 0..11, 100);
    limiter.unconfirm("n10");
    assert_eq!(limiter.absence(60, 10, 100), limit_exceeded(60));
    assert_eq!(limiter.absence(300, 10, 100), limit_exceeded(60));
    assert_eq!(limiter.absence(300, 9, 100), SECOND_LOOK);
}

#[test]
fn a_second_look_one_window_later_allows_deletions() {
    let mut limiter = quick();
    limiter.lose(0, 0..30, 100);
    assert_eq!(limiter.absence(299, 29, 100), limit_exceeded(0));
    for number in 0..30 {
        assert_eq!(limiter.absence(300, number, 100), SECOND_LOOK);
        limiter.removed(at(301), &name(number));
    }
    // A node that is lost later has a second look of its own.
    assert_eq!(limiter.absence(310, 30, 70), limit_exceeded(310));
    assert_eq!(limiter.absence(601, 30, 70), WITHIN);
}

/// The only node of a cluster, or all that are misnamed.
#[test]
fn no_node_is_deleted_before_a_fresh_answer_since_its_first_absence_has_found_another() {
    let mut limiter = DeletionLimiter::new(DeletionLimits::default());
    limiter.found(at(0), &name(9));
    limiter.lose(1, 1..4, 6);
    assert!(limiter.needs_other(at(6), "n1"));
    for seconds in [6, 3_000] {
        assert_eq!(limiter.absence(seconds, 1, 6), FINDS_NONE);
    }
    // A snapshot proves nothing, and neither does the node itself.
    limiter.found_lately("n9");
    assert_eq!(limiter.absence(3_001, 1, 6), FINDS_NONE);
    assert_eq!(limiter.absence(3_001, 2, 6), FINDS_NONE);
    limiter.found(at(3_002), &name(1));
    assert!(!limiter.needs_other(at(3_002), "n2"));
    assert_eq!(limiter.absence(3_002, 2, 6), WITHIN);
    limiter.absence(3_003, 1, 6).unwrap_err();
    assert!(limiter.needs_other(at(3_008), "n1"));
    assert_eq!(limiter.absence(3_008, 1, 6), FINDS_NONE);
    limiter.found(at(3_009), &name(8));
    limiter.found(at(3_010), &name(1));
    limiter.absence(3_011, 1, 6).unwrap_err();
    assert_eq!(limiter.absence(3_016, 1, 6), FINDS_NONE, "found before");
}

#[test]
fn a_second_look_has_to_find_other_nodes_itself() {
    let mut limiter = DeletionLimiter::new(DeletionLimits::default());
    limiter.lose(0, 0..11, 100);
    limiter.found(at(1), &"other".into());
    assert_eq!(limiter.absence(5, 1, 100), limit_exceeded(0));
    assert!(!limiter.needs_other(at(299), "n1") && limiter.needs_other(at(300), "n1"));
    assert_eq!(limiter.absence(300, 1, 100), FINDS_NONE);
    limiter.found(at(300), &"other".into());
    assert_eq!(limiter.absence(305, 1, 100), SECOND_LOOK);
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
        for number in 0..lost {
            let said = limiter.absence(3_000, number, nodes);
            assert_eq!(said == MAJORITY, held, "{lost} of {nodes}: {said:?}");
        }
    }
}

/// It sticks to no node: an ordinary loss after it would wait for an operator.
#[test]
fn more_than_half_is_judged_anew_with_each_answer() {
    let mut limiter = quick();
    limiter.lose(1, 0..51, 100);
    assert_eq!(limiter.absence(3_000, 50, 100), MAJORITY);
    limiter.found(at(3_001), &name(50));
    assert_eq!(limiter.absence(3_002, 49, 100), SECOND_LOOK);
    for number in 10..50 {
        limiter.found(at(3_003), &name(number));
    }
    assert_eq!(limiter.absence(3_004, 1, 100), WITHIN);
}

/// It is set in this absence, and over when the row of answers begins again.
#[test]
fn a_label_counts_only_for_the_absence_that_it_was_given_in() {
    let mut limiter = quick();
    limiter.lose(0, 0..60, 100);
    assert_eq!(limiter.absence(1, 7, 100), MAJORITY);
    assert_eq!(limiter.labelled(2, 7), Ok(Release::Operator));
    let ends: [(&str, Happens); 4] = [
        ("found", |limiter| limiter.found(at(3), &name(7))),
        ("ready", |limiter| limiter.ready("n7")),
        ("not sure", |limiter| limiter.unconfirm("n7")),
        ("registered again", |limiter| limiter.removed(at(3), "n7")),
    ];
    for (what, end) in ends {
        let mut limiter = limiter.clone();
        end(&mut limiter);
        for seconds in [4, 9, 3_000] {
            assert_eq!(limiter.labelled(seconds, 7), MAJORITY, "{what}");
        }
        // It is taken away, which the node's change or the next answer shows, and set again.
        limiter.unlabelled("n7");
        assert_eq!(limiter.labelled(3_001, 7), Ok(Release::Operator), "{what}");
    }
    // It was there when this process began.
    assert_eq!(limiter.labelled(3, 99), MAJORITY);
}

/// `outrigger.dev/confirm-deletions` on the Lease.
#[test]
fn one_act_confirms_all_deletions_that_are_withheld_now_and_none_that_comes_later() {
    let mut limiter = quick();
    limiter.lose(0, 0..60, 100);
    // Ten were within the limit when they were asked about.
    assert_eq!(limiter.confirm_withheld(3), Err(50));
    limiter.lose(1, 0..60, 100);
    assert_eq!(limiter.count(at(1), 100).awaiting_operator, 60);
    assert_eq!(limiter.confirm_withheld(59), Err(60));
    assert_eq!(limiter.confirm_withheld(60).unwrap().len(), 60);
    limiter.found(at(2), &name(8));
    limiter.found(at(3), &"other".into());
    limiter.unconfirm("n9");
    assert_eq!(limiter.absence(3, 7, 100), Ok(Release::Operator));
    for number in [8, 9, 61] {
        assert_eq!(limiter.absence(3, number, 100), MAJORITY, "n{number}");
    }
    assert_eq!(limiter.confirm_withheld(3).unwrap().len(), 3);
}

/// The autoscaler's taint, or a deletion that has begun.
#[test]
fn a_node_whose_end_was_announced_counts_neither_as_absent_nor_as_deleted() {
    let mut limiter = DeletionLimiter::new(DeletionLimits::default());
    let announced = Absent {
        is_announced: true,
        ..absent(10)
    };
    for seconds in [0, 5] {
        for number in 0..8 {
            let said = limiter.absent(at(seconds), &name(number), announced);
            assert_eq!(said.is_ok(), seconds == 5, "two answers, and no other node");
        }
    }
    assert!(!limiter.needs_other(at(6), "n0"));
    assert_eq!(limiter.count(at(6), 10).total(), 0);
    for number in 0..8 {
        limiter.removed(at(6), &name(number));
    }
    assert_eq!(limiter.count(at(6), 2).total(), 0);
    limiter.absence(7, 8, 2).unwrap_err();
    limiter.found(at(8), &name(9));
    assert_eq!(limiter.absence(12, 8, 2), WITHIN);
}

#[test]
fn a_limit_that_is_switched_off_keeps_all_nodes_and_counts() {
    let mut limiter = sure(DeletionLimits {
        enabled: false,
        confirm: 1,
        ..DeletionLimits::default()
    });
    assert_eq!(limiter.absence(0, 1, 10), Err(DeletionRefusal::Off));
    assert_eq!(limiter.labelled(0, 1), Err(DeletionRefusal::Off));
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
    limiter.found_lately("n1");
    assert_eq!(limiter.absence(2, 0, 100), WITHIN);

    for number in 1..=60 {
        limiter.absent_while_ready(at(3), &name(number));
    }
    assert_eq!(limiter.absence(4, 0, 100), MAJORITY);
    // The cloud did not lose them, so the deletions are released once the window is over.
    for number in 1..=60 {
        limiter.found_lately(&name(number));
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
    let mut limiter = sure(DeletionLimits::default());
    limiter.absence(0, 1, 10).unwrap_err();
    limiter.absence(-3_600, 1, 10).unwrap_err();
    assert_eq!(limiter.absence(6, 1, 10), WITHIN);
}

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan};

use super::{Brake, Counts, DeletionLimits, DeletionRefusal, Hold, Release};

const MINUTE: i64 = 60;

fn at(seconds: i64) -> Timestamp {
    "2026-11-21T10:00:00Z".parse::<Timestamp>().unwrap() + seconds.seconds()
}

/// A brake for which one answer is enough.
fn quick() -> Brake {
    Brake::new(DeletionLimits {
        confirm: 1,
        ..DeletionLimits::default()
    })
}

fn name(number: usize) -> Arc<str> {
    format!("n{number}").into()
}

/// Something that happens to a brake.
type Happens = fn(&mut Brake);

impl Brake {
    fn absence(
        &mut self,
        seconds: i64,
        number: usize,
        nodes: usize,
    ) -> Result<Release, DeletionRefusal> {
        self.absent(at(seconds), &name(number), nodes, false)
    }

    fn absence_confirmed(
        &mut self,
        seconds: i64,
        number: usize,
    ) -> Result<Release, DeletionRefusal> {
        self.absent(at(seconds), &name(number), 100, true)
    }

    /// Nodes that are absent, one look each.
    fn lose(&mut self, seconds: i64, numbers: std::ops::Range<usize>, nodes: usize) {
        for number in numbers {
            let _ = self.absence(seconds, number, nodes);
        }
    }
}

fn braked(since: i64) -> Result<Release, DeletionRefusal> {
    let until = at(since + 5 * MINUTE);
    Err(DeletionRefusal::Braked { until })
}

const HELD: Result<Release, DeletionRefusal> = Err(DeletionRefusal::Held(Hold::Majority));
const FINDS_NONE: Result<Release, DeletionRefusal> = Err(DeletionRefusal::Held(Hold::FindsNone));
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
        let mut brake = quick();
        for number in 0..limit {
            assert_eq!(
                brake.absence(0, number, nodes),
                WITHIN,
                "{number} of {nodes}"
            );
            // Once is once.
            assert_eq!(
                brake.absence(1, number, nodes),
                WITHIN,
                "{number} of {nodes}"
            );
        }
        assert_eq!(brake.absence(2, limit, nodes), braked(2), "{nodes}");
        // Neither are those that were allowed and are not gone yet.
        assert_eq!(brake.absence(3, 0, nodes), braked(0), "{nodes}");
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
        let mut brake = Brake::new(limits.clone());
        brake.lose(0, 0..allowed, nodes);
        for number in 0..allowed {
            assert_eq!(brake.absence(0, number, nodes), WITHIN, "{limits:?}");
        }
        if allowed < nodes {
            assert_ne!(brake.absence(0, allowed, nodes), WITHIN, "{limits:?}");
        }
    }
}

#[test]
fn one_answer_is_not_enough() {
    let mut brake = Brake::new(DeletionLimits {
        confirm: 3,
        ..DeletionLimits::default()
    });
    let again = |seconds| Err(DeletionRefusal::LookAgain { at: at(seconds) });
    assert_eq!(brake.absence(0, 1, 10), again(5));
    // Too early to count.
    assert_eq!(brake.absence(4, 1, 10), again(5));
    assert_eq!(brake.absence(6, 1, 10), again(11));
    assert_eq!(brake.absence(11, 1, 10), WITHIN);
    // Not for an operator either: the annotation releases the brake, and confirms no absence.
    assert_eq!(brake.absence_confirmed(11, 2), again(16));
}

#[test]
fn an_answer_in_between_restarts_the_row() {
    let again = |seconds| Err(DeletionRefusal::LookAgain { at: at(seconds) });
    let cases: [(&str, Happens); 4] = [
        ("found", |brake| brake.found(at(3), "n1")),
        ("ready", |brake| brake.ready("n1")),
        ("held by a person", |brake| brake.dismiss("n1")),
        ("not sure", |brake| brake.unconfirm("n1")),
    ];
    for (between, happens) in cases {
        let mut brake = Brake::new(DeletionLimits::default());
        assert_eq!(brake.absence(0, 1, 10), again(5));
        happens(&mut brake);
        assert_eq!(brake.absence(6, 1, 10), again(11), "{between}");
        assert_eq!(brake.absence(11, 1, 10), WITHIN, "{between}");
    }
}

/// A contradiction, whichever loop asked, and though its answer may be from a cache.
#[test]
fn an_answer_to_the_other_loop_restarts_the_row_except_for_an_operator() {
    let contradicted = |seconds| Err(DeletionRefusal::Contradicted { at: at(seconds) });
    let mut brake = Brake::new(DeletionLimits::default());
    brake.absence(0, 1, 10).unwrap_err();
    for seconds in [3, 9, 15] {
        brake.found_lately(at(seconds), "n1");
        let looked = seconds + 3;
        assert_eq!(brake.absence(looked, 1, 10), contradicted(looked + 5));
    }
    // The absences that the provider confirmed are as many as an operator's confirmation needs.
    let by_person = brake.absent(at(19), &name(1), 10, true);
    assert_eq!(by_person, Ok(Release::Person));
    assert!(brake.contradiction("n1").is_some(), "an answer is missing");
    assert_eq!(brake.absence(23, 1, 10), WITHIN);
    assert_eq!(brake.contradiction("n1"), None);
    // Another client may clear the annotation, or the machine be found again, before it is deleted.
    brake.found_lately(at(24), "n1");
    assert!(brake.contradiction("n1").is_some());
    // The second look is taken one window after the first absence that still counts.
    let mut brake = quick();
    brake.lose(0, 0..11, 100);
    brake.found_lately(at(100), "n10");
    assert_eq!(brake.absence(200, 10, 100), braked(200));
    assert_eq!(brake.absence(300, 10, 100), braked(200));
}

#[test]
fn doubt_begins_the_window_anew_too() {
    let mut brake = quick();
    brake.lose(0, 0..11, 100);
    brake.found(at(1), "n99");
    brake.unconfirm("n10");
    assert_eq!(brake.absence(60, 10, 100), braked(60));
    assert_eq!(brake.absence(300, 10, 100), braked(60));
    assert_eq!(brake.absence(300, 9, 100), SECOND_LOOK);
}

#[test]
fn a_second_look_one_window_later_allows_deletions() {
    let mut brake = quick();
    brake.lose(0, 0..30, 100);
    brake.found(at(1), "n99");
    assert_eq!(brake.absence(299, 29, 100), braked(0));
    for number in 0..30 {
        assert_eq!(brake.absence(300, number, 100), SECOND_LOOK);
        brake.removed(at(301), &name(number));
    }
    // One that is lost later has a second look of its own.
    assert_eq!(brake.absence(310, 30, 70), braked(310));
    assert_eq!(brake.absence(601, 30, 70), WITHIN);
}

#[test]
fn a_provider_that_finds_nothing_is_not_believed() {
    let mut brake = quick();
    brake.found(at(0), "n99");
    brake.lose(1, 0..11, 100);
    assert_eq!(brake.absence(301, 10, 100), FINDS_NONE);
    assert_eq!(brake.absence(3_000, 10, 100), FINDS_NONE);
    brake.found_lately(at(3_001), "n50");
    assert_eq!(brake.absence(3_002, 10, 100), SECOND_LOOK);
}

#[test]
fn more_than_half_is_for_a_person_to_decide() {
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
        let mut brake = quick();
        brake.lose(0, 0..lost, nodes);
        brake.found(at(1), "other");
        let count = brake.count(at(1), nodes);
        assert_eq!(count.held, if held { lost } else { 0 }, "{lost} of {nodes}");
        for number in 0..lost {
            let said = brake.absence(3_000, number, nodes);
            assert_eq!(said == HELD, held, "{lost} of {nodes}: {said:?}");
        }
    }
}

/// Else half of a cluster would go as soon as the first deletions are forgotten, or new nodes join.
#[test]
fn held_nodes_stay_held() {
    let mut brake = quick();
    for number in 0..10 {
        assert_eq!(brake.absence(0, number, 100), WITHIN);
        brake.removed(at(0), &name(number));
    }
    brake.lose(1, 10..51, 90);
    brake.found(at(2), "n99");
    assert_eq!(brake.count(at(2), 90).held, 41);
    assert_eq!(brake.absence(3_000, 50, 90), HELD);
    assert_eq!(brake.absence(3_000, 50, 900), HELD);
    // Until the node comes back, or a person says so.
    brake.found(at(3_001), "n50");
    assert_eq!(brake.absence(3_002, 50, 900), WITHIN);
    assert_eq!(brake.absence_confirmed(3_002, 49), Ok(Release::Person));
    assert_eq!(brake.absence(3_003, 48, 900), HELD);
}

#[test]
fn a_brake_switched_off_holds_no_node_and_counts() {
    let mut brake = Brake::new(DeletionLimits {
        enabled: false,
        confirm: 1,
        ..DeletionLimits::default()
    });
    assert_eq!(brake.absence(0, 1, 10), Err(DeletionRefusal::Off));
    assert_eq!(brake.absence_confirmed(0, 1), Err(DeletionRefusal::Off));
    assert_eq!(brake.count(at(0), 10).absent, 1);
}

#[test]
fn a_deleted_node_counts_for_one_window() {
    let mut brake = quick();
    for number in 0..3 {
        assert_eq!(brake.absence(0, number, 20), WITHIN);
        brake.removed(at(number as i64), &name(number));
    }
    // Ready when another client deleted it: no sign of a cloud that forgets.
    brake.ready("n7");
    brake.removed(at(3), "n7");
    let expected = Counts {
        nodes: 20,
        absent: 0,
        held: 0,
        absent_while_ready: 0,
        deleted: 3,
        limit: 3.0,
    };
    assert_eq!(brake.count(at(299), 17), expected);
    assert_eq!(brake.absence(299, 4, 17), braked(299));
    assert!(brake.count(at(299), 17).is_braked());
    // The first deletion is forgotten.
    assert_eq!(brake.count(at(300), 17).deleted, 2);
    assert_eq!(brake.absence(300, 4, 17), WITHIN);
    assert_eq!(brake.count(at(302), 17).deleted, 0);
}

/// A provider that denies nodes whose kubelets are alive is not to be trusted about the others.
#[test]
fn contradictions_count_against_the_provider() {
    let mut brake = quick();
    for number in 1..=10 {
        brake.absent_while_ready(at(0), &name(number));
    }
    assert_eq!(brake.absence(1, 0, 100), braked(1));
    assert_eq!(brake.count(at(1), 100).absent_while_ready, 10);
    // That a node is ready is what makes it one.
    brake.ready("n1");
    assert_eq!(brake.count(at(1), 100).absent_while_ready, 10);
    brake.found_lately(at(2), "n1");
    assert_eq!(brake.absence(2, 0, 100), WITHIN);

    for number in 1..=60 {
        brake.absent_while_ready(at(3), &name(number));
    }
    assert_eq!(brake.absence(4, 0, 100), HELD);
    // The cloud did not lose them, so the deletions are released once the window is over.
    for number in 1..=60 {
        brake.found_lately(at(5), &name(number));
    }
    assert_eq!(brake.absence(6, 0, 100), WITHIN);
}

#[test]
fn a_contradiction_ends_with_the_nodes_readiness_or_lapses() {
    let mut brake = quick();
    brake.absent_while_ready(at(0), &name(1));
    assert_eq!(brake.absence(1, 1, 10), WITHIN);
    // Reported late: the absence that is confirmed stays.
    brake.absent_while_ready(at(2), &name(1));
    let count = brake.count(at(2), 10);
    assert_eq!((count.absent, count.absent_while_ready), (1, 0));

    brake.absent_while_ready(at(0), &name(2));
    assert_eq!(brake.count(at(599), 10).absent_while_ready, 1);
    assert_eq!(brake.count(at(600), 10).absent_while_ready, 0);
}

/// The caller's count of nodes may lag behind.
#[test]
fn there_are_no_fewer_nodes_than_absent_ones() {
    let mut brake = quick();
    brake.lose(0, 0..5, 0);
    assert_eq!(brake.count(at(0), 0).nodes, 5);
}

#[test]
fn memory_is_bounded() {
    let mut brake = quick();
    for round in 0..100 {
        let now = round * 5 * MINUTE;
        for number in 0..3 {
            brake.absence(now, number, 10).unwrap();
            brake.removed(at(now), &name(number));
        }
    }
    assert_eq!(brake.deleted.len(), 3);
    assert!(brake.absent.is_empty());
}

/// A clock that is set back makes it wait longer, never shorter.
#[test]
fn a_clock_that_goes_back_lets_nothing_go() {
    let mut brake = Brake::new(DeletionLimits::default());
    brake.absence(0, 1, 10).unwrap_err();
    brake.absence(-3_600, 1, 10).unwrap_err();
    assert_eq!(brake.absence(6, 1, 10), WITHIN);
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
             counted anew; a person who knows better labels the node with outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true",
        ),
        (
            DeletionRefusal::Off,
            "off",
            "deletion is switched off (--node-deletion-enabled=false)",
        ),
        (
            DeletionRefusal::Braked {
                until: at(300) + Duration::from_millis(120),
            },
            "braked",
            "too many nodes are absent at once; a second look at 2026-11-21T10:05:00Z decides",
        ),
        (
            DeletionRefusal::Held(Hold::Majority),
            "held_majority",
            "more than half of the provider's nodes are absent; it stays until an operator labels it with outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true",
        ),
        (
            DeletionRefusal::Held(Hold::FindsNone),
            "held_finds_none",
            "many nodes are absent, and the provider finds no instance of any node; it stays until an operator labels it with outrigger.dev.node-restriction.kubernetes.io/confirm-deletion=true",
        ),
    ] {
        assert_eq!((refusal.as_str(), &*refusal.to_string()), (label, text));
    }
    let releases = [Release::WithinLimit, Release::SecondLook, Release::Person];
    assert_eq!(
        releases.map(Release::as_str),
        ["within_limit", "second_look", "person"]
    );
}

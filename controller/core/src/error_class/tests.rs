use std::{collections::HashSet, time::Duration};

use super::{CLASS_PAUSE, DELETION_WAIT, ErrorClass, KEY_WAIT, Requeue};

#[test]
fn labels_are_distinct_metric_words() {
    let labels: HashSet<_> = ErrorClass::ALL.iter().map(|class| class.as_str()).collect();
    assert_eq!(labels.len(), ErrorClass::ALL.len());
    for label in labels {
        assert!(
            label.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{label}"
        );
    }
}

/// C-12, Q-28: a delay that the other side names is honoured exactly, everywhere.
#[test]
fn a_named_delay_is_kept_exactly() {
    let after = Duration::from_millis(1_234);
    for class in [
        ErrorClass::RateLimited {
            retry_after: Some(after),
        },
        ErrorClass::InProgress {
            retry_after: Some(after),
        },
    ] {
        assert_eq!(class.requeue(), Requeue::After(after));
    }
}

/// Neither a storm nor a silence, whatever the other side says.
#[test]
fn a_named_delay_is_bounded() {
    let clamped = |delay: Duration| {
        [KEY_WAIT, DELETION_WAIT, CLASS_PAUSE].map(|bounds| bounds.clamp(delay).as_secs())
    };
    assert_eq!(clamped(Duration::ZERO), [1, 1, 1]);
    assert_eq!(clamped(Duration::from_millis(1)), [1, 1, 1]);
    assert_eq!(clamped(Duration::from_secs(20)), [20, 20, 20]);
    assert_eq!(clamped(Duration::from_hours(24 * 365)), [300, 30, 3600]);
    assert_eq!(DELETION_WAIT.longest(), Duration::from_secs(30));
    for (delay, after) in [(Duration::from_millis(1), 1), (Duration::MAX, 300)] {
        for class in [
            ErrorClass::RateLimited {
                retry_after: Some(delay),
            },
            ErrorClass::InProgress {
                retry_after: Some(delay),
            },
        ] {
            let after = Requeue::After(Duration::from_secs(after));
            assert_eq!(class.requeue(), after, "{delay:?}");
        }
    }
}

/// N-11: whatever is wrong on the other side, the node is asked about again.
#[test]
fn only_a_wrong_object_waits_for_a_change() {
    let waits: Vec<_> = ErrorClass::ALL
        .iter()
        .filter(|class| class.requeue() == Requeue::OnChange)
        .map(|class| class.as_str())
        .collect();
    assert_eq!(waits, ["invalid"]);
    let stops = ErrorClass::ALL
        .iter()
        .filter(|class| class.requeue() == Requeue::Stop);
    assert_eq!(stops.count(), 1);
}

#[test]
fn a_person_heals_what_backs_off_slowly() {
    // Calls that credentials have paused go on as soon as the pause ends.
    let slow_back_off = ErrorClass::ALL
        .iter()
        .filter(|class| class.requeue() == Requeue::SlowBackOff);
    let slow_back_off: Vec<_> = slow_back_off.map(|class| class.as_str()).collect();
    assert_eq!(slow_back_off, ["malformed", "forbidden", "unimplemented"]);
}

/// Failures that concern every object alike, and waits, make no event on each of them.
#[test]
fn owners_get_events_of_failures_of_their_object() {
    let classes: Vec<_> = ErrorClass::ALL
        .iter()
        .filter(|class| class.is_for_owner())
        .map(|class| class.as_str())
        .collect();
    let expected = [
        "transient",
        "not_ready",
        "quota",
        "invalid",
        "malformed",
        "forbidden",
        "unimplemented",
    ];
    assert_eq!(classes, expected);
}

use std::{collections::HashSet, time::Duration};

use super::{ErrorClass, Requeue};

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

/// N-11: whatever is wrong on the other side, the node is asked about again.
#[test]
fn only_a_wrong_object_or_a_missing_capability_waits_for_a_change() {
    let waits: Vec<_> = ErrorClass::ALL
        .iter()
        .filter(|class| class.requeue() == Requeue::OnChange)
        .map(|class| class.as_str())
        .collect();
    assert_eq!(waits, ["invalid", "unimplemented"]);
    let stops = ErrorClass::ALL
        .iter()
        .filter(|class| class.requeue() == Requeue::Stop);
    assert_eq!(stops.count(), 1);
}

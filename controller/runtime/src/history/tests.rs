//! The history remembers within its bounds.

use super::*;

fn history(bytes: usize) -> (History, HistoryMetrics) {
    let metrics = HistoryMetrics::default();
    (History::new(bytes, metrics.clone()), metrics)
}

/// The explanation of a Node, each line as its rule, its count and its text.
fn lines(history: &History, name: &str) -> Vec<String> {
    let decisions = history.explain(Subject::node(name)).into_iter();
    let line = |one: NotedDecision| format!("{} {} {}", one.rule, one.count, one.text);
    decisions.map(line).collect()
}

#[test]
fn lines_that_are_alike_are_counted_and_the_newest_text_is_shown() {
    let (history, metrics) = history(1 << 20);
    for (rule, text) in [("a", "1"), ("b", "1"), ("a", "2"), ("a", "3")] {
        history.noted("test", Subject::node("n"), "sync", rule, || text.into());
    }
    history.noted("test", Subject::service("n", "n"), "sync", "a", || {
        "of a Service".into()
    });
    assert_eq!(lines(&history, "n"), ["b 1 1", "a 3 3"]);
    assert_eq!(lines(&history, "unknown"), [""; 0]);
    assert!(metrics.bytes.get() > 0);
}

#[test]
fn the_last_decision_outlives_a_thousand_refreshes_that_change_nothing() {
    let (history, metrics) = history(8_000);
    let refreshed = |node: &str, rule: &'static str, text: &str| {
        history.noted("test", Subject::node(node), "refresh", rule, || text.into());
    };
    refreshed("n0", "refresh", "an address");
    for _ in 0..1_000 {
        for node in ["n0", "n1", "n2", "n3", "n4"] {
            refreshed(node, "in_sync", "as it is");
        }
    }
    let bytes = metrics.bytes.get();
    assert!(bytes < 6_000, "{bytes}");
    assert_eq!(
        lines(&history, "n0"),
        ["refresh 1 an address", "in_sync 1000 as it is"]
    );
}

#[test]
fn memory_is_bounded_for_each_object_and_as_a_whole() {
    const RULES: [&str; 20] = [
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
        "17", "18", "19",
    ];
    let (history, metrics) = history(100_000);
    for rule in RULES {
        history.noted("test", Subject::node("n"), "sync", rule, String::new);
    }
    let kept = lines(&history, "n");
    assert_eq!(kept.len(), 16);
    assert!(
        kept[0].starts_with("4 ") && kept[15].starts_with("19 "),
        "{kept:?}"
    );
    for at in 0..10_000 {
        history.noted(
            "test",
            Subject::node(&format!("n{at}")),
            "sync",
            "x",
            || "y".repeat(100),
        );
    }
    let bytes = metrics.bytes.get();
    assert!((50_000..=100_000).contains(&bytes), "{bytes}");
    // The oldest of all go first.
    assert_eq!(lines(&history, "n"), [""; 0]);
    assert_eq!(lines(&history, "n0"), [""; 0]);
    assert_eq!(lines(&history, "n9999").len(), 1);
}

#[test]
fn nothing_is_remembered_if_nothing_is_asked_for() {
    let (history, _) = history(0);
    history.noted("test", Subject::node("n"), "sync", "a", || {
        unreachable!("not shown")
    });
    assert!(!history.is_on());
    assert!(history.explain(Subject::node("n")).is_empty());
}

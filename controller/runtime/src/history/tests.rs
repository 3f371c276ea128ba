//! The history remembers and records within its bounds.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use outrigger_core::node::{
    NodeAddress, NodeView, initialize::Policy, instance::Instance, refresh,
};
use serde_json::json;

use super::*;

/// A Node with a label of some length, and its machine.
fn node(at: usize) -> (NodeView, Instance) {
    let node = json!({
        "metadata": {"name": format!("n{at}"), "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                     "labels": {"text": "x".repeat(1_000)}},
        "spec": {"providerID": format!("mock://n{at}")},
    });
    let instance = Instance {
        provider_id: format!("mock://n{at}").into(),
        ..Instance::default()
    };
    (serde_json::from_value(node).unwrap(), instance)
}

/// A refresh, by which an address may have to be written.
fn refreshed(history: &History, (node, instance): &(NodeView, Instance)) {
    let policy = Policy::default();
    let plan = refresh::plan(node, instance, &policy);
    history.decided("test", Subject::node(&node.name), || {
        let decision = RecordedDecision::Refresh {
            node: Cow::Borrowed(node),
            instance: Cow::Borrowed(instance),
            policy: Cow::Borrowed(&policy),
        };
        (decision, DecisionOutcome::Refresh(Cow::Borrowed(&plan)))
    });
}

fn history(bytes: usize) -> (History, HistoryMetrics) {
    let metrics = HistoryMetrics::default();
    (History::new(bytes, None, metrics.clone()), metrics)
}

/// The explanation of a Node, each line as its rule, its count and its text.
fn lines(history: &History, name: &str) -> Vec<String> {
    let Some(text) = history.explain(Subject::node(name)) else {
        return Vec::new();
    };
    let all: Value = serde_json::from_str(&text).unwrap();
    let line = |one: &Value| {
        let last = &one["last"];
        format!("{} {} {}", last["rule"], one["count"], last["text"]).replace('"', "")
    };
    all.as_array().unwrap().iter().map(line).collect()
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
    const NODES: usize = 5;
    let (history, metrics) = history(8_000);
    let mut nodes: Vec<_> = (0..NODES).map(node).collect();
    let address = NodeAddress {
        kind: "InternalIP".into(),
        address: "10.0.0.1".into(),
    };
    nodes[0].1.addresses = [address].into();
    refreshed(&history, &nodes[0]);
    nodes[0].1.addresses = [].into();
    for _ in 0..1_000 {
        for node in &nodes {
            refreshed(&history, node);
        }
    }
    let bytes = metrics.bytes.get();
    assert!(bytes < 6_000, "{bytes}");
    assert_eq!(
        lines(&history, "n0"),
        [
            "refresh 1 addresses InternalIP=10.0.0.1",
            "in_sync 1000 the Node is as its instance"
        ]
    );
    let explained: Value =
        serde_json::from_str(&history.explain(Subject::node("n0")).unwrap()).unwrap();
    let has_inputs = |at: usize| explained[at]["last"].get("decision").is_some();
    assert!(has_inputs(0) && !has_inputs(1), "{explained}");
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
    assert!(!history.is_on() && !history.is_kept());
    assert_eq!(history.explain(Subject::node("n")), None);
}

/// Waits for the thread of the recording.
fn until(holds: impl Fn() -> bool) {
    let began = tokio::time::Instant::now();
    while !holds() {
        assert!(began.elapsed().as_secs() < 20, "it takes too long");
        std::thread::yield_now();
    }
}

fn mode(file: &std::path::Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_empty_file_that_all_can_read_is_for_its_owner_once_it_is_a_recording() {
    let file = std::env::temp_dir().join(format!("empty-{}", std::process::id()));
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    drop(Recording::begin(file.clone(), 8_000, HistoryMetrics::default()).unwrap());
    assert_eq!(mode(&file), 0o600);
    fs::remove_file(file).unwrap();
}

#[test]
fn a_recording_has_two_files_at_most_and_each_begins_with_its_header() {
    let dir = std::env::temp_dir().join(format!("recording-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (file, before) = (dir.join("file"), dir.join("file.1"));
    fs::write(&file, "of an earlier process\n").unwrap();
    let metrics = HistoryMetrics::default();
    let recording = Recording::begin(file.clone(), 8_000, metrics.clone()).unwrap();
    assert_eq!(
        fs::read_to_string(&before).unwrap(),
        "of an earlier process\n"
    );
    let history = History::new(0, Some(recording), metrics.clone());
    assert!(history.is_on() && !history.is_kept());
    for at in 0..100_u64 {
        history.noted("test", Subject::node("n"), "sync", "a", || {
            format!("{at:0>100}")
        });
        until(|| metrics.recorded.get() == at + 1);
    }
    drop(history);
    until(|| {
        fs::read_to_string(&file)
            .unwrap()
            .contains(&format!("{:0>100}", 99))
    });
    for path in [&file, &before] {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.len() <= 4_000, "{}", text.len());
        let header: Header = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(header.recording, FORMAT);
        for line in text.lines().skip(1) {
            let line: Line<'_, Value> = serde_json::from_str(line).unwrap();
            assert_eq!(line.replay(), Ok(false));
        }
    }
    assert_eq!(mode(&file), 0o600);
    assert_eq!(metrics.lost.get(), 0);
    fs::remove_dir_all(dir).unwrap();
}

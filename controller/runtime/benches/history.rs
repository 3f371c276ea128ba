//! Cost of the history: time of one decision that is remembered, and memory, without an API server.
//!
//! `cargo bench -p outrigger-runtime --bench history`

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "it measures time, and its operator reads a panic"
)]

use std::{borrow::Cow, fs, time::Instant};

use outrigger_core::{
    decision::{DecisionOutcome, RecordedDecision},
    node::{
        NodeView,
        initialize::{self, Policy},
        instance::Instance,
        refresh,
    },
};
use outrigger_runtime::history::{History, HistoryMetrics, Recording, Subject};
use serde_json::json;

const NODES: usize = 5_000;

fn main() {
    let nodes: Vec<_> = (0..NODES).map(node).collect();
    println!(
        "{NODES} Nodes\n{:52}{:>12}{:>12}",
        "", "ns each", "KiB in all"
    );
    let metrics = HistoryMetrics::default();
    measure("no history", &nodes, &History::default());
    for mib in [4, 64] {
        let history = History::new(mib << 20, None, metrics.clone());
        measure(&format!("{mib} MiB"), &nodes, &history);
    }
    let file = std::env::temp_dir().join(format!("bench-{}.jsonl", std::process::id()));
    let recording = Recording::begin(file.clone(), 1 << 30, metrics.clone()).unwrap();
    let history = History::new(4 << 20, Some(recording), metrics);
    measure("4 MiB, recorded", &nodes, &history);
    drop(history);
    fs::remove_file(file).unwrap();
}

/// Each Node is initialised, its two writes are noted, and then it is refreshed once and once more.
fn measure(what: &str, nodes: &[NodeView], history: &History) {
    let (policy, resident) = (Policy::default(), resident());
    report(
        &format!("{what}: initialised"),
        nodes.len() * 3,
        resident,
        || {
            for (at, node) in nodes.iter().enumerate() {
                let instance = instance(at);
                let subject = Subject::node(&node.name);
                let planned = initialize::plan(node, &instance, &policy);
                history.decided("cloud-node-controller", subject, || {
                    let decision = RecordedDecision::Initialize {
                        node: Cow::Borrowed(node),
                        instance: Cow::Borrowed(&instance),
                        policy: Cow::Borrowed(&policy),
                    };
                    (decision, DecisionOutcome::Initialize((&planned).into()))
                });
                for kind in ["PATCH", "PATCH status"] {
                    let text = || "answered in 3 ms".to_owned();
                    history.noted("kube-apiserver", subject, kind, "written", text);
                }
            }
        },
    );
    for round in ["refreshed", "refreshed again"] {
        report(&format!("{what}: {round}"), nodes.len(), resident, || {
            for (at, node) in nodes.iter().enumerate() {
                let instance = instance(at);
                let plan = refresh::plan(node, &instance, &policy);
                history.decided("cloud-node-controller", Subject::node(&node.name), || {
                    let decision = RecordedDecision::Refresh {
                        node: Cow::Borrowed(node),
                        instance: Cow::Borrowed(&instance),
                        policy: Cow::Borrowed(&policy),
                    };
                    (decision, DecisionOutcome::Refresh(Cow::Borrowed(&plan)))
                });
            }
        });
    }
}

fn report(what: &str, count: usize, resident_before: u64, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    let each = began.elapsed().as_nanos() / count as u128;
    let more = resident().saturating_sub(resident_before);
    println!("{what:52}{each:>12}{more:>12}");
}

/// Memory of the process in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

/// A Node with the labels and annotations that one in a cloud has.
fn node(at: usize) -> NodeView {
    let name = format!("worker-{at:05}.example.internal");
    let labels = (0..12).map(|n| {
        (
            format!("label.example.com/key-{n}"),
            json!("a value of some length"),
        )
    });
    let labels: serde_json::Map<_, _> = labels.collect();
    let node = json!({
        "metadata": {"name": name, "uid": format!("6f9619ff-8b86-d011-b42d-{at:012}"), "resourceVersion": "7",
                     "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels},
        "spec": {"taints": [
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        ]},
        "status": {"addresses": [
            {"type": "InternalIP", "address": "10.0.0.5"}, {"type": "Hostname", "address": name},
        ], "nodeInfo": {"systemUUID": "6f9619ff-8b86-d011-b42d-00c04fc964ff"}},
    });
    serde_json::from_value(node).unwrap()
}

fn instance(at: usize) -> Instance {
    Instance {
        provider_id: format!("mock://i-{at:012}").into(),
        instance_type: "m5.large".into(),
        zone: "zone-a".into(),
        region: "region-1".into(),
        ..Instance::default()
    }
}

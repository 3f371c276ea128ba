//! Cost of targets that are selected: from the nodes to the targets of each Service, without an API server.
//!
//! `cargo bench -p outrigger-core --bench targets`

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "its operator reads a panic"
)]

use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

use outrigger_core::{
    node::NodeView,
    service::ServiceView,
    targets::{ANNOTATION_NODE_SELECTOR, Revision, TargetLabels, TargetPool},
};
use serde_json::json;

const NODES: usize = 5_000;
const SERVICES: usize = 10_000;
const SELECTORS: usize = 100;

fn main() {
    println!("{SERVICES} Services, {NODES} nodes");
    let plain: Vec<_> = (0..SERVICES).map(|at| service(at, None)).collect();
    measure("no selector", &plain);
    let selecting: Vec<_> = (0..SERVICES)
        .map(|at| service(at, Some(format!("pool=p{}", at % SELECTORS))))
        .collect();
    measure("100 selectors", &selecting);
}

/// One node gets another label, and then goes.
fn measure(what: &str, services: &[ServiceView]) {
    let mut nodes: Vec<_> = (0..NODES).map(|at| node(at, at % SELECTORS)).collect();
    let pool = |nodes: &[Arc<NodeView>]| {
        let labels = TargetLabels {
            has_selectors: services.iter().any(ServiceView::selects),
            ..TargetLabels::default()
        };
        TargetPool::among(nodes.iter().cloned(), labels)
    };
    let before = targets(&pool(&nodes), services);
    nodes[7] = node(7, 8);
    let began = cpu();
    let relabelled = pool(&nodes);
    let selected = cpu().saturating_sub(began);
    let after = targets(&relabelled, services);
    let (took, changed, calls) = (
        cpu().saturating_sub(began),
        count(&before, &after),
        calls(&before, &after),
    );
    println!(
        "{what}: a label: {changed} Services change, in {calls} sets; {selected:.1?} of CPU for the pool, {took:.1?} \
         with each Service's targets"
    );
    nodes.remove(7);
    let gone = targets(&pool(&nodes), services);
    println!(
        "{what}: a node goes: {} Services change, in {} sets",
        count(&after, &gone),
        self::calls(&after, &gone)
    );
}

/// CPU that this thread has used: other programs may use the processors too.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = stat.split_whitespace().next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

fn targets(pool: &TargetPool, services: &[ServiceView]) -> Vec<Revision> {
    let targets = services
        .iter()
        .map(|service| pool.targets_of(service).revision().clone());
    targets.collect()
}

fn count(before: &[Revision], after: &[Revision]) -> usize {
    before.iter().zip(after).filter(|(a, b)| a != b).count()
}

/// Sets of targets that go out: each is a call for 200 Services.
fn calls(before: &[Revision], after: &[Revision]) -> usize {
    let changed = before.iter().zip(after).filter(|(a, b)| a != b);
    changed
        .map(|(_, after)| after.as_str())
        .collect::<BTreeSet<_>>()
        .len()
}

fn node(at: usize, pool: usize) -> Arc<NodeView> {
    let node = json!({
        "metadata": {
            "name": format!("node-{at}"), "uid": format!("uid-{at}"), "resourceVersion": "1",
            "labels": {
                "pool": format!("p{pool}"), "kubernetes.io/hostname": format!("node-{at}"),
                "topology.kubernetes.io/zone": format!("zone-{}", at % 3),
            },
        },
        "spec": {"providerID": format!("mock://machine-{at}"), "podCIDRs": ["10.1.0.0/24"]},
        "status": {"addresses": [{"type": "InternalIP", "address": format!("10.0.{}.{}", at / 250, at % 250)}]},
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

fn service(at: usize, selector: Option<String>) -> ServiceView {
    let mut service = json!({
        "metadata": {"name": format!("web-{at}"), "namespace": "shop", "uid": format!("uid-{at}")},
        "spec": {"type": "LoadBalancer"},
    });
    if let Some(selector) = selector {
        service["metadata"]["annotations"][ANNOTATION_NODE_SELECTOR] = selector.into();
    }
    serde_json::from_value(service).unwrap()
}

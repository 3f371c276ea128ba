//! Cost of allocating Pod CIDRs: time of one allocation and memory of a lease term, without an API server.
//!
//! `cargo bench -p outrigger-core --bench pod_cidrs`

#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "it measures time, and its operator reads a panic"
)]

use std::{fs, hint::black_box, time::Instant};

use outrigger_core::{
    cidr::Cidr,
    ipam::{Allocator, plan, pool::Pool},
    node::NodeView,
};
use serde_json::json;

fn main() {
    println!("{:44}{:>12}{:>12}", "", "ns each", "KiB in all");
    let nodes: Vec<_> = (0..65_536).map(node).collect();
    allocator(&nodes[..5_000]);
    allocator(&nodes);
}

fn allocator(nodes: &[NodeView]) {
    let resident = resident();
    let range = Cidr::parse("10.0.0.0/8").unwrap();
    let mut allocator = Allocator::from_pools(vec![Pool::new(range, 24, &[]).unwrap()]);
    let what = format!("{} Nodes and their CIDRs", nodes.len());
    report(&what, nodes.len() as u64, resident, || {
        for node in nodes {
            black_box(plan(node, None::<&[&str]>, &mut allocator));
        }
    });
}

fn report(what: &str, count: u64, before: u64, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    let each = began.elapsed().as_nanos() / u128::from(count);
    let kib = resident().saturating_sub(before);
    println!("{what:44}{each:>12}{kib:>12}");
}

fn node(number: u32) -> NodeView {
    let name = format!("node-{number:05}");
    let uid = format!("1b4e28ba-2fa1-11d2-883f-{number:012x}");
    let node = json!({"metadata": {"name": name, "uid": uid, "resourceVersion": "7"}});
    serde_json::from_value(node).unwrap()
}

/// KiB of this process in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

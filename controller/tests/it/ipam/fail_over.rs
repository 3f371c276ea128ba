//! The leader is killed, or frozen and continued, in the middle of many allocations.
//!
//! `OUTRIGGER_TEST_NODES=1000` has as many nodes.

use std::env;

use http::Method;
use outrigger_testbed::{
    faults::{Fault, Injected, Rule},
    nodes::Machine,
};
use rustix::process::Signal;

use super::{all_allocated, cidrs, machines};
use crate::{
    cluster::Cluster,
    replica::Replica,
    stage::{Backstage, Setup},
    wait::{holds, until},
};

fn count() -> usize {
    env::var("OUTRIGGER_TEST_NODES").map_or(100, |count| count.parse().unwrap())
}

/// A leader in the middle of its allocations, and a standby. Fields are dropped in order: the cluster last.
struct Scene {
    /// Writes of the leader that are held up.
    hung: Injected,
    leader: Replica,
    next: Replica,
    cluster: Backstage,
}

impl Scene {
    async fn set(count: usize) -> Self {
        let flags = [
            "--controllers=node-ipam-controller",
            "--allocate-node-cidrs",
            "--cluster-cidr=10.0.0.0/12",
            "--leader-elect-lease-duration=8s",
            "--leader-elect-renew-deadline=4s",
            "--leader-elect-retry-period=500ms",
        ];
        let setup = Setup::without_provider().flags(&flags);
        let cluster = setup.machines(machines(count)).prepare().await;
        let mut leader = cluster.part("leader").without_api_server().start().await;
        let hung = hang_after(&leader, count / 2);
        leader.proxy.accept_connections().await;
        leader.leads().await;
        let mut next = cluster.replica("next").await;
        next.follows(&mut leader).await;
        is_met("the leader is in the middle", &hung, 1).await;
        Self {
            hung,
            leader,
            next,
            cluster,
        }
    }
}

/// Writes to Nodes after the first `count` are never answered, nor carried out; some of those before are
/// carried out, and their answers are lost.
fn hang_after(replica: &Replica, count: usize) -> Injected {
    let writes = |fault| {
        Rule::new(fault)
            .method(Method::PATCH)
            .path_contains("/nodes/")
    };
    let hung = replica.proxy.inject(writes(Fault::Silence).skip(count));
    let lost = writes(Fault::LoseAnswer).chance(0.2, 1);
    replica.proxy.inject(lost);
    hung
}

async fn is_met(what: &str, rule: &Injected, least: usize) {
    until(what, async || {
        let hits = rule.hits();
        holds(hits >= least, || format!("{hits} writes are held up"))
    })
    .await;
}

async fn allocated(cluster: &Cluster) -> usize {
    let nodes = cluster.named("n-").await;
    nodes.iter().filter(|node| !cidrs(node).is_empty()).count()
}

fn node_writes(replica: &Replica) -> usize {
    let requests = replica.proxy.requests();
    let of_nodes = requests
        .iter()
        .filter(|request| request.method == Method::PATCH && request.path.contains("/nodes/"));
    of_nodes.count()
}

#[tokio::test]
async fn a_leader_killed_in_the_middle_leaves_no_cidr_on_two_nodes() {
    let count = count();
    let mut scene = Scene::set(count).await;
    let Scene {
        leader,
        next,
        cluster,
        ..
    } = &mut scene;
    leader.controller.kill().await;
    let before = allocated(cluster).await;
    assert!((1..count).contains(&before), "{before} of {count}");
    next.leads().await;
    all_allocated(cluster, count, 1).await;
    assert!(node_writes(next) > 0);
}

#[tokio::test]
async fn a_leader_frozen_past_its_lease_writes_nothing_when_it_goes_on() {
    let count = count();
    let mut scene = Scene::set(count).await;
    let Scene {
        hung,
        leader,
        next,
        cluster,
    } = &mut scene;
    // A write that has passed the fence may be on its way to the connection.
    is_met("all other writes are held up", hung, count - count / 2).await;
    leader.controller.signal(Signal::STOP);
    let next_hung = hang_after(next, count / 4);
    next.leads().await;
    is_met("the next leader is in the middle", &next_hung, 1).await;
    let before = allocated(cluster).await;
    assert!((1..count).contains(&before), "{before} of {count}");

    // Its state is that of its own lease term, and no fault is in its way.
    let sent = node_writes(leader);
    leader.proxy.clear_rules();
    cluster.register(&Machine::new("n-late")).await;
    leader.controller.signal(Signal::CONT);
    let status = leader.controller.ended().await;
    assert_eq!(status.code(), Some(1), "{status}");
    assert_eq!(node_writes(leader), sent, "it wrote after its lease");

    next.proxy.clear_rules();
    all_allocated(cluster, count + 1, 1).await;
}

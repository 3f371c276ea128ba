//! Pod CIDRs for nodes: I-7 to I-17 as far as they are to be seen from outside.

use std::{collections::BTreeMap, env, time::Duration};

use http::Method;
use k8s_openapi::api::core::v1::Node;
use outrigger_testbed::{
    faults::{Fault, Injected, Rule},
    nodes::Machine,
};
use rustix::process::Signal;

use crate::{
    cluster::Cluster,
    replica::Replica,
    stage::Setup,
    wait::{DEADLINE, holds, stays, until, until_within},
};

const ALLOCATES: [&str; 2] = ["--allocate-node-cidrs", "--controllers=*,node-ipam"];

fn allocating(cluster_cidr: &str) -> Setup {
    let setup = Setup::synthesizing().flags(&ALLOCATES);
    setup.flag(&format!("--cluster-cidr={cluster_cidr}"))
}

fn machines(count: usize) -> impl Iterator<Item = Machine> {
    Machine::numbered("n-", count)
}

fn cidrs(node: &Node) -> Vec<String> {
    let spec = node.spec.as_ref().unwrap();
    let cidrs = spec.pod_cidrs.clone().unwrap_or_default();
    assert_eq!(spec.pod_cidr, cidrs.first().cloned());
    cidrs
}

/// Waits until so many nodes have so many Pod CIDRs each; no CIDR is on two of them.
pub(crate) async fn all_allocated(
    cluster: &Cluster,
    count: usize,
    each: usize,
) -> BTreeMap<String, Vec<String>> {
    let deadline = DEADLINE + Duration::from_millis(200) * count as u32;
    until_within("all nodes have Pod CIDRs", deadline, async || {
        let nodes = cluster.named("n-").await;
        let owners: BTreeMap<_, _> = nodes
            .iter()
            .map(|node| (node.metadata.name.clone().unwrap(), cidrs(node)))
            .collect();
        let mut all: Vec<_> = owners.values().flatten().collect();
        let total = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), total, "one CIDR on two nodes: {owners:?}");
        let done = owners.values().filter(|cidrs| cidrs.len() == each).count();
        holds(done == count, || format!("{done} of {count}"))?;
        Ok(owners)
    })
    .await
}

#[tokio::test]
async fn i_12_nodes_of_a_dual_stack_cluster_get_a_cidr_of_each_family() {
    let setup = allocating("10.0.0.0/16,fd00::/48").machines(machines(30));
    let stage = setup.start().await;
    let owners = all_allocated(&stage, 30, 2).await;
    let (ipv4, ipv6): (Vec<_>, Vec<_>) = owners.values().map(|both| (&both[0], &both[1])).unzip();
    assert!(
        ipv4.iter()
            .all(|cidr| cidr.starts_with("10.0.") && cidr.ends_with(".0/24")),
        "{ipv4:?}"
    );
    assert!(
        ipv6.iter()
            .all(|cidr| cidr.starts_with("fd00:") && cidr.ends_with("/64")),
        "{ipv6:?}"
    );
}

/// I-20 is overruled: the cloud's CIDRs become the Nodes'.
#[tokio::test]
async fn the_clouds_cidrs_are_written_where_the_provider_allocates() {
    let mock = Setup::mock(&["--synthesize-instances", "--pod-cidrs=10.9.0.0/16"]);
    let setup = mock.flags(&ALLOCATES);
    let setup = setup.flag("--cidr-allocator-type=CloudAllocator");
    let stage = setup.machines(machines(10)).start().await;
    let owners = all_allocated(&stage, 10, 1).await;
    let of_the_cloud = |cidrs: &Vec<String>| cidrs.iter().all(|cidr| cidr.starts_with("10.9."));
    assert!(owners.values().all(of_the_cloud), "{owners:?}");
}

/// Vendors pass the flag to programs of theirs, with an allocator of their own or with none.
#[tokio::test]
async fn allocate_node_cidrs_alone_starts_no_second_allocator() {
    let setup = Setup::synthesizing().flag("--allocate-node-cidrs");
    let setup = setup.flag("--cluster-cidr=10.0.0.0/16");
    let mut stage = setup.machines(machines(2)).start().await;
    stage.synced("n-00000").await;
    let says = [
        "starts no allocator",
        "--controllers=*,node-ipam-controller",
    ];
    stage.controller.says(&says).await;
    stays(
        "no Node gets a Pod CIDR",
        Duration::from_secs(3),
        async || {
            let nodes = stage.named("n-").await;
            let all: Vec<_> = nodes.iter().flat_map(cidrs).collect();
            holds(all.is_empty(), || format!("{all:?}"))
        },
    )
    .await;
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

fn node_writes(replica: &Replica) -> usize {
    let requests = replica.proxy.requests();
    let of_nodes = requests
        .iter()
        .filter(|request| request.method == Method::PATCH && request.path.contains("/nodes/"));
    of_nodes.count()
}

/// In the middle of many allocations: `OUTRIGGER_TEST_NODES=1000` has as many nodes.
#[tokio::test]
async fn a_leader_frozen_past_its_lease_writes_nothing_when_it_goes_on() {
    let count = env::var("OUTRIGGER_TEST_NODES").map_or(100, |count| count.parse().unwrap());
    let setup = Setup::without_provider().flags(&[
        "--controllers=node-ipam-controller",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.0.0.0/12",
        "--leader-elect-lease-duration=6s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
    ]);
    let cluster = setup.machines(machines(count)).prepare().await;
    let mut leader = cluster.part("leader").without_api_server().start().await;
    let hung = hang_after(&leader, count / 2);
    leader.proxy.accept_connections().await;
    leader.leads().await;
    let mut next = cluster.replica("next").await;
    next.follows(&mut leader).await;
    // A write that has passed the fence may be on its way to the connection.
    is_met("all other writes are held up", &hung, count - count / 2).await;
    leader.controller.signal(Signal::STOP);
    let next_hung = hang_after(&next, count / 4);
    next.leads().await;
    is_met("the next leader is in the middle", &next_hung, 1).await;
    let before = cluster.named("n-").await;
    let before = before.iter().filter(|node| !cidrs(node).is_empty()).count();
    assert!((1..count).contains(&before), "{before} of {count}");
    // Its state is that of its own lease term, and no fault is in its way.
    let sent = node_writes(&leader);
    leader.proxy.clear_rules();
    cluster.register(&Machine::new("n-late")).await;
    leader.controller.signal(Signal::CONT);
    let status = leader.controller.ended().await;
    assert_eq!(status.code(), Some(1), "{status}");
    assert_eq!(node_writes(&leader), sent, "it wrote after its lease");
    next.proxy.clear_rules();
    all_allocated(&cluster, count + 1, 1).await;
}

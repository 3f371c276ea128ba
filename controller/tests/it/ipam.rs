//! Pod CIDRs for nodes: I-7 to I-17 as far as they are to be seen from outside.

mod fail_over;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Node;
use outrigger_testbed::nodes::Machine;

use crate::{
    cluster::Cluster,
    stage::Setup,
    wait::{DEADLINE, holds, stays, until_within},
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

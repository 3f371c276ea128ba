//! The rights that `deploy/` grants: those of the Deployment of kustomize, and those of each loop alone.

use k8s_openapi::api::core::v1::Node;
use rustix::process::geteuid;

use super::permissions::{elected, serve_a_service};
use crate::{
    mock::instance,
    replica::Replica,
    rights::{Rights, shipped_flags},
    routes::network,
    stage::{Backstage, Setup},
    wait::{holds, until},
};

/// Parts of the rules that are there whichever loops run.
const EVERY: [&str; 5] = [
    "start",
    "stores",
    "all loops",
    "leader election",
    "HTTPS server",
];

#[tokio::test]
async fn the_shipped_manifests_grant_what_their_flags_need() {
    let cluster = Setup::without_provider().prepare().await;
    let rights = Rights::shipped().of("shipped");
    rights.grant(&cluster.plane).await;
    let mut part = cluster.part("shipped").user("shipped");
    // The port is the test's, and so are the provider's user and the volume of the Pod.
    let own = [
        "--secure-port=",
        "--provider-user=",
        "--leader-elect-identity-file=",
    ];
    let flags = shipped_flags().into_iter();
    for flag in flags.filter(|flag| !own.iter().any(|own| flag.starts_with(own))) {
        part = part.flag(&flag);
    }
    part = part.flag(&format!("--provider-user={}", geteuid().as_raw()));
    let file = cluster.dir().join("identities");
    part = part.flag(&format!("--leader-elect-identity-file={}", file.display()));
    let mut replica = part.start().await;
    replica.leads().await;
    replica.own_node(&cluster, "shipped").await;
    cluster.synced("shipped").await;
    serve_a_service(&cluster, "shipped").await;
    elected(&cluster, &replica.identity().await).await;
    replica.port.anonymous().gets("/readyz", 200).await;
    replica.controller.terminate().await;
    replica.was_allowed_everything();
    rights.revoke(&cluster.plane).await;
}

/// Starts a replica with one loop and the rights of its part, and lets it do its work.
async fn alone(
    cluster: &Backstage,
    part: &str,
    flags: &[&str],
    provider: &[&str],
    work: impl AsyncFnOnce(&Replica),
) {
    let parts = [&EVERY[..], &[part]].concat();
    let rights = Rights::of_parts(&parts).of(part);
    rights.grant(&cluster.plane).await;
    let only = format!("--controllers={part}-controller");
    let mut replica = cluster.part(part).user(part).without_provider().flag(&only);
    for flag in flags {
        replica = replica.flag(flag);
    }
    let mut replica = replica.start().await;
    let provider: Vec<_> = provider.iter().map(|&flag| flag.to_owned()).collect();
    replica.mock.start(&provider).await;
    replica.leads().await;
    work(&replica).await;
    replica.controller.terminate().await;
    replica.was_allowed_everything();
    rights.revoke(&cluster.plane).await;
}

#[tokio::test]
async fn each_loop_works_with_the_rights_of_its_part() {
    let cluster = Setup::without_provider().prepare().await;
    let comes = async |what: &str, is_there: &dyn Fn(&Node) -> bool| {
        until(what, async || {
            let node = cluster.node("parted").await;
            holds(is_there(&node), || format!("{:?}", node.status))
        })
        .await;
    };
    alone(&cluster, "cloud-node", &[], &[], async |replica| {
        replica.own_node(&cluster, "parted").await;
        cluster.synced("parted").await;
    })
    .await;
    let pods = "--cluster-cidr=10.9.0.0/16";
    let ipam = ["--allocate-node-cidrs", pods];
    alone(&cluster, "node-ipam", &ipam, &[], async |_| {
        let has_cidr = |node: &Node| {
            node.spec
                .as_ref()
                .is_some_and(|spec| spec.pod_cidr.is_some())
        };
        comes("the Pod CIDR", &has_cidr).await;
    })
    .await;
    alone(
        &cluster,
        "node-route",
        &[pods],
        &["--routes"],
        async |replica| {
            replica.mock.create(instance("parted")).await;
            let has_route = |node: &Node| network(node) == "False RouteCreated";
            comes("the condition of its route", &has_route).await;
        },
    )
    .await;
    alone(&cluster, "service-lb", &[], &[], async |_| {
        serve_a_service(&cluster, "parted").await;
    })
    .await;
}

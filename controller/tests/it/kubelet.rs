//! A kubelet whose credentials are in other hands: the API server lets it choose its Pod CIDRs, its addresses and its
//! annotations, and no traffic of other Nodes follows.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};

use crate::{
    cluster::services::load_balancer,
    look::uid,
    mock::instance_at,
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

/// After the victim in the alphabet: Nodes of one second go by their names.
const THIEF: &str = "villain";
const STOLEN: &str = "192.0.2.66";
const PAUSED: &str = "outrigger.dev.node-restriction.kubernetes.io/paused";

impl Stage {
    /// A client with the credentials of the kubelet of this Node.
    fn kubelet(&self, node: &str) -> Client {
        let user = format!("system:node:{node}");
        self.plane.client_of(&user, Some("system:nodes")).unwrap()
    }

    /// `destination node` of each route.
    async fn route_pairs(&self) -> Vec<String> {
        let routes = self.mock.routes().await.into_iter();
        let pairs = routes.map(|route| format!("{} {}", route.destination, route.target.node));
        pairs.collect()
    }

    /// The addresses that the load balancer of this UID sends to.
    async fn sent_to(&self, uid: &str) -> Vec<String> {
        let load_balancer = self.mock.load_balancer(uid).await.unwrap();
        let targets = load_balancer.targets.iter();
        let addresses = targets.map(|target| target.address.map(|ip| ip.to_string()));
        addresses.map(Option::unwrap_or_default).collect()
    }
}

async fn patch(client: &Client, change: &Value) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(client.clone());
    let parameters = PatchParams::default();
    nodes.patch(THIEF, &parameters, &Patch::Merge(change)).await
}

/// The walk of the attack, with `NodeRestriction` as in a cluster.
#[tokio::test]
async fn one_kubelet_bends_no_traffic_of_other_nodes() {
    let stage = Setup::mock(&["--synthesize-instances", "--routes", "--route-target=all"])
        .flags(&[
            "--allocate-node-cidrs",
            "--controllers=*,node-ipam",
            "--cluster-cidr=10.244.0.0/16",
            "--node-status-update-frequency=1s",
            "--route-reconciliation-period=1s",
            "--load-balancer-update-idle=100ms",
            "--load-balancer-update-ceiling=1s",
        ])
        .machines([Machine::new("victim")])
        .start()
        .await;
    stage.synced("victim").await;
    let service = stage.serve(load_balancer("web")).await;
    let ours = ["10.244.0.0/24 victim"];
    until("the victim has its route", async || {
        let routes = stage.route_pairs().await;
        holds(routes == ours, || format!("{routes:?}"))
    })
    .await;

    // It registers with half of the victim's Pods, and an address of its choice.
    stage.mock.create(instance_at(THIEF, &["10.0.0.9"])).await;
    let kubelet = stage.kubelet(THIEF);
    let machine = Machine::new(THIEF).provided_ip(STOLEN.parse().unwrap());
    let mut node = machine.node(jiff::Timestamp::now());
    node.metadata
        .annotations
        .as_mut()
        .unwrap()
        .remove("alpha.kubernetes.io/provided-node-ip");
    let spec = node.spec.as_mut().unwrap();
    spec.pod_cidr = Some("10.244.0.0/25".to_owned());
    spec.pod_cidrs = Some(vec!["10.244.0.0/25".to_owned()]);
    let nodes: Api<Node> = Api::all(kubelet.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let thief = stage.synced(THIEF).await;
    let overlap = stage.event(&thief, "DuplicatePodCIDR").await;
    let says = overlap.message.unwrap();
    assert!(
        says.contains("of Node villain") && says.contains("of Node victim"),
        "{says}"
    );
    stage.mock.sends_to(uid(&service), &["victim", THIEF]).await;
    let addresses = stage.sent_to(uid(&service)).await;
    assert!(!addresses.contains(&STOLEN.to_owned()), "{addresses:?}");

    // It may not pause its Node. The annotation, which it may set, pauses nothing.
    let refused = patch(&kubelet, &json!({"metadata": {"labels": {PAUSED: "true"}}})).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("is not allowed to modify labels"),
        "{refused}"
    );
    patch(
        &kubelet,
        &json!({"metadata": {"annotations": {"outrigger.dev/paused": "true"}}}),
    )
    .await
    .unwrap();

    // It writes another address, again and again.
    let nodes: Api<Node> = Api::all(kubelet.clone());
    let stolen = json!({"status": {"addresses": [{"type": "InternalIP", "address": STOLEN}]}});
    stays(
        "the load balancer and the routes are as they were",
        Duration::from_secs(3),
        async || {
            let (parameters, change) = (PatchParams::default(), Patch::Merge(&stolen));
            nodes
                .patch_status(THIEF, &parameters, &change)
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = stage.sent_to(uid(&service)).await;
            let routes = stage.route_pairs().await;
            holds(now == addresses && routes == ours, || {
                format!("{now:?}, {routes:?}")
            })
        },
    )
    .await;
    until("the status is what the cloud says", async || {
        let node = stage.node(THIEF).await;
        let status = node
            .status
            .unwrap_or_default()
            .addresses
            .unwrap_or_default();
        let is_stolen = status.iter().any(|one| one.address == STOLEN);
        holds(!is_stolen, || format!("{status:?}"))
    })
    .await;

    // The victim's route gets lost, and is made again.
    stage.mock.lose_routes().await;
    until("the victim has its route again", async || {
        let routes = stage.route_pairs().await;
        holds(routes == ours, || format!("{routes:?}"))
    })
    .await;
}

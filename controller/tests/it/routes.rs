//! Routes to Pods: as far as they are to be seen from outside.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use outrigger_provider_mock::routes::Route;
use outrigger_testbed::nodes::Machine;

use crate::{
    look::answered,
    stage::{Setup, Stage},
    wait::{holds, stays, until},
};

const MOCK: [&str; 4] = [
    "--synthesize-instances",
    "--routes",
    "--route-target=all",
    "--latency=5ms",
];

/// Nodes get their Pod CIDRs from node-ipam.
fn allocating(mock: &[&str]) -> Setup {
    Setup::mock(&[&MOCK, mock].concat()).flags(&[
        "--allocate-node-cidrs",
        "--controllers=*,node-ipam",
        "--cluster-cidr=10.244.0.0/16,fd00:10::/48",
    ])
}

fn machines(count: usize) -> impl Iterator<Item = Machine> {
    Machine::numbered("n-", count)
}

fn pod_cidrs(node: &Node) -> Vec<String> {
    let spec = node.spec.as_ref().unwrap();
    spec.pod_cidrs.clone().unwrap_or_default()
}

/// `status reason` of the condition.
pub(crate) fn network(node: &Node) -> String {
    let conditions = node.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    let condition = conditions.find(|condition| condition.type_ == "NetworkUnavailable");
    let words = condition.map(|condition| {
        let reason = condition.reason.clone().unwrap_or_default();
        [condition.status.clone(), reason].join(" ")
    });
    words.unwrap_or_default()
}

/// `destination node`, in order.
fn pairs(routes: &[Route]) -> Vec<String> {
    let pair = |route: &Route| format!("{} {}", route.destination, route.target.node);
    let mut pairs: Vec<_> = routes.iter().map(pair).collect();
    pairs.sort();
    pairs
}

async fn delete(stage: &Stage, node: &str) {
    let (nodes, parameters) = (stage.nodes(), DeleteParams::default());
    nodes.delete(node, &parameters).await.unwrap();
}

/// Waits until `count` nodes and the route table agree, and all nodes have the condition.
pub(crate) async fn agreed(stage: &Stage, count: usize) {
    until("routes and nodes agree", async || {
        let nodes = stage.named("n-").await;
        let expected = nodes.iter().flat_map(|node| {
            let name = node.metadata.name.clone().unwrap();
            let cidrs = pod_cidrs(node);
            cidrs.into_iter().map(move |cidr| format!("{cidr} {name}"))
        });
        let mut expected: Vec<_> = expected.collect();
        expected.sort();
        let actual = pairs(&stage.mock.routes().await);
        let done = nodes
            .iter()
            .filter(|node| network(node) == "False RouteCreated");
        let done = done.count();
        let complete = nodes.iter().all(|node| !pod_cidrs(node).is_empty());
        let holding = complete && nodes.len() == count && done == count && expected == actual;
        holds(holding, || {
            format!(
                "{} of {} routes, {done} conditions",
                actual.len(),
                expected.len()
            )
        })
    })
    .await;
}

#[tokio::test]
async fn r_21_nodes_of_a_dual_stack_cluster_get_routes_and_a_condition() {
    const NODES: usize = 50;
    let stage = allocating(&[]).machines(machines(NODES)).start().await;
    agreed(&stage, NODES).await;
    let requests = stage.proxy.requests();
    // One loop may write between another's read and write, and be followed by a patch with other preconditions.
    let statuses = requests.iter().filter(|request| {
        request.is_write() && request.path.ends_with("/status") && !answered(request, 409)
    });
    // A write for the addresses, and a write for the condition.
    assert_eq!(statuses.count(), 2 * NODES);
    // one that comes later, too; and one that goes takes its routes along.
    stage.register(&Machine::new("n-late")).await;
    agreed(&stage, NODES + 1).await;
    delete(&stage, "n-00000").await;
    agreed(&stage, NODES).await;
}

/// A loop that is turned off leaves routes as they are.
#[tokio::test]
async fn routes_stay_when_the_loop_is_turned_off() {
    let stage = allocating(&[]).machines(machines(3)).start().await;
    agreed(&stage, 3).await;
    let before = pairs(&stage.mock.routes().await);
    let mut stage = stage;
    stage.controller.terminate().await;
    stage.start_controller_with(&["--configure-cloud-routes=false"]);
    delete(&stage, "n-00000").await;
    stage.register(&Machine::new("n-late")).await;
    stage.synced("n-late").await;
    stays("the routes", Duration::from_secs(2), async || {
        let now = pairs(&stage.mock.routes().await);
        holds(now == before, || format!("{now:?}"))
    })
    .await;
    assert!(
        stage
            .controller
            .log()
            .contains("--configure-cloud-routes is false")
    );
}

/// upstream ends with exit code 255.
#[tokio::test]
async fn without_a_cluster_cidr_there_are_no_routes_and_a_warning() {
    let stage = Setup::mock(&MOCK).start().await;
    stage.register(&Machine::new("n-1")).await;
    stage.synced("n-1").await;
    until("the warning", async || {
        let log = stage.controller.log();
        holds(log.contains("--cluster-cidr is empty"), || log)
    })
    .await;
    assert_eq!(stage.mock.routes().await.len(), 0);
}

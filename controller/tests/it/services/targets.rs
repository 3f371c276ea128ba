//! Which nodes load balancers send to, and the changes of nodes that reach them (S-50 to S-54, S-56).

use kube::api::{DeleteParams, Patch, PatchParams};
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use outrigger_testbed::nodes::{Machine, Readiness};
use serde_json::json;

use super::{ENSURE, MADE, UPDATE, alone, quick};
use crate::{
    cluster::services::{annotation, load_balancer},
    look::{addresses, reason, uid},
    stage::{Setup, Stage},
    wait::{holds, until},
};

const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

impl Stage {
    async fn delete_node(&self, name: &str) {
        let deleted = self.nodes().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }
}

/// S-50, S-51; Q-34 is how it is upstream, and written down.
#[tokio::test]
async fn s50_who_is_a_target_and_who_is_not() {
    let machine = |name: &str| Machine::new(name).initialized();
    let machines = [
        machine("a-plain"),
        machine("b-not-excluded").label(EXCLUDE, "false"),
        machine("c-unready").readiness(Readiness::NotReady),
        Machine::new("d-uninitialized"),
        machine("e-control-plane").label("node-role.kubernetes.io/control-plane", ""),
        machine("f-cordoned"),
        machine("g-with-id").provider_id("mock://i-1"),
        machine("v-excluded").label(EXCLUDE, "true"),
        machine("w-excluded-too").label(EXCLUDE, ""),
        machine("x-excluded-by-junk").label(EXCLUDE, "perhaps"),
        machine("y-autoscaled").taint(AUTOSCALER, Some("1700000000"), "NoSchedule"),
        machine("z-deleted"),
    ];
    let stage = alone(&[]).machines(machines).prepare().await;
    stage
        .merge("f-cordoned", json!({"spec": {"unschedulable": true}}))
        .await;
    let hold = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    stage.merge("z-deleted", hold).await;
    stage
        .nodes()
        .delete("z-deleted", &DeleteParams::default())
        .await
        .unwrap();
    let stage = stage.start();
    let service = stage.serve(load_balancer("web")).await;
    let expected = [
        "a-plain",
        "b-not-excluded",
        "c-unready",
        "d-uninitialized",
        "e-control-plane",
        "f-cordoned",
        "g-with-id",
    ];
    assert_eq!(stage.mock.targets(uid(&service)).await, expected);
    let release = json!({"metadata": {"finalizers": null}});
    stage.merge("z-deleted", release).await;
}

/// S-52, S-54.
#[tokio::test]
async fn s52_nodes_that_come_go_or_change_reach_all_load_balancers() {
    let stage = quick(&[]).start().await;
    let one = stage.serve(load_balancer("one")).await;
    let two = stage.serve(load_balancer("two")).await;
    let both = async |nodes: &[&str]| {
        stage.mock.sends_to(uid(&one), nodes).await;
        stage.mock.sends_to(uid(&two), nodes).await;
    };
    stage.register(&Machine::new("new").initialized()).await;
    both(&["n-00000", "n-00001", "new"]).await;
    stage
        .merge("new", json!({"metadata": {"labels": {EXCLUDE: "true"}}}))
        .await;
    both(&["n-00000", "n-00001"]).await;
    stage
        .merge("new", json!({"metadata": {"labels": {EXCLUDE: null}}}))
        .await;
    both(&["n-00000", "n-00001", "new"]).await;
    let tainted = json!({"spec": {"taints": [{"key": AUTOSCALER, "effect": "NoSchedule"}]}});
    stage.merge("n-00001", tainted).await;
    both(&["n-00000", "new"]).await;
    let updates = stage.mock.updates().await;
    assert_eq!(updates, 8);
    // S-56: it was none any more.
    stage.delete_node("n-00001").await;
    stage.delete_node("new").await;
    both(&["n-00000"]).await;
    stage
        .merge("n-00000", json!({"spec": {"providerID": "mock://i-1"}}))
        .await;
    stage.updated(12).await;
    assert_eq!(stage.mock.calls(ENSURE).await, 2);

    let updated = stage.event(&one, "UpdatedLoadBalancer").await;
    assert_eq!(updated.type_.as_deref(), Some("Normal"));
    assert_eq!(
        updated.message.as_deref(),
        Some("Updated load balancer with new hosts")
    );
    let events = [&MADE[..], &["UpdatedLoadBalancer"; 6]].concat();
    stage.only_events(&one, &events).await;
}

/// S-52, S-58: what a load balancer is not made of.
#[tokio::test]
async fn s52_heartbeats_and_labels_of_nodes_reach_no_load_balancer() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage
        .merge("n-00000", annotation("mock.example/note", "a"))
        .await;
    stage
        .merge(
            "n-00000",
            json!({"metadata": {"labels": {"a": "b", EXCLUDE: "false"}}}),
        )
        .await;
    stage
        .merge("n-00000", json!({"spec": {"unschedulable": true}}))
        .await;
    let taints = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    stage.merge("n-00000", taints).await;
    let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let patch = Patch::Strategic(conditions);
    let (nodes, parameters) = (stage.nodes(), PatchParams::default());
    nodes
        .patch_status("n-00000", &parameters, &patch)
        .await
        .unwrap();
    // Seen after all of these.
    stage.register(&Machine::new("new").initialized()).await;
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001", "new"])
        .await;
    assert_eq!(stage.mock.updates().await, 1);
    assert_eq!(stage.mock.calls(UPDATE).await, 1);
    assert_eq!(stage.mock.calls(ENSURE).await, 1);
}

/// S-54.
#[tokio::test]
async fn s54_the_last_node_goes_with_a_warning() {
    let stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.only_events(&service, &MADE).await;
    for name in ["n-00000", "n-00001"] {
        stage.delete_node(name).await;
    }
    stage.mock.sends_to(uid(&service), &[]).await;
    let event = stage.event(&service, "UnAvailableLoadBalancer").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = "There are no available nodes for LoadBalancer";
    assert_eq!(event.message.as_deref(), Some(message));
    stage.register(&Machine::new("new").initialized()).await;
    stage.mock.sends_to(uid(&service), &["new"]).await;
}

/// Addresses are a part of a target, and the provider gets them.
#[tokio::test]
async fn a_node_with_another_address_is_another_target() {
    let machine = Machine::new("n").initialized();
    let stage = alone(&[]).machines([machine]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let addresses = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": "n"},
    ]}});
    let (nodes, parameters) = (stage.nodes(), PatchParams::default());
    let patch = Patch::Merge(addresses);
    nodes.patch_status("n", &parameters, &patch).await.unwrap();
    stage.updated(1).await;
    let made = stage.mock.load_balancer(uid(&service)).await.unwrap();
    assert_eq!(made.targets[0].address, Some([10, 0, 0, 7].into()));
}

/// The guest agents of all machines restart: the cloud shows the machines, and none of their IP addresses.
#[tokio::test]
async fn one_answer_of_host_names_alone_changes_neither_nodes_nor_load_balancers() {
    let names = ["n-00000", "n-00001", "n-00002"];
    let stage = Setup::synthesizing()
        .flags(&[
            "--controllers=cloud-node-controller,service-lb-controller",
            "--node-status-update-frequency=1s",
            "--load-balancer-update-idle=100ms",
            "--load-balancer-update-ceiling=1s",
        ])
        .machines(Machine::numbered("n-", names.len()))
        .start()
        .await;
    let mut before = Vec::new();
    for name in names {
        before.push(addresses(&stage.synced(name).await));
    }
    assert!(
        before
            .iter()
            .flatten()
            .any(|one| one.starts_with("InternalIP="))
    );
    stage.serve(load_balancer("web")).await;
    let updates = stage.mock.updates().await;

    let bad = Effect::BadAnswer(BadAnswer::HostnamesOnly);
    let fault = Fault::on(Method::BatchGetInstances, bad).times(1);
    stage.mock.inject(fault).await;
    for name in names {
        until(&format!("the Warning on {name}"), async || {
            let node = stage.nodes().get(name).await.unwrap();
            let events = stage.events_of(&node).await;
            let kept = events
                .iter()
                .filter(|event| reason(event) == "AddressesKept");
            holds(kept.count() == 1, || format!("{events:?}"))
        })
        .await;
    }
    // Two more sweeps.
    let calls = stage.mock.asked().await;
    stage.mock.was_asked(calls + 2 * names.len() as u64).await;
    for (name, before) in names.iter().zip(&before) {
        let node = stage.nodes().get(name).await.unwrap();
        assert_eq!(&addresses(&node), before, "{name}");
    }
    assert_eq!(stage.mock.updates().await, updates);
}

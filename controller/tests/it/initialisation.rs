//! The initialisation of a Node: what it gets from its instance, in which writes, and beside writes of others. The tables are
//! those of `core::node`.

use std::time::Duration;

use http::{Method, Request};
use outrigger_provider_mock::instances::InstanceSpec;
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::{self, Machine, Readiness},
};
use serde_json::{Value, json};

use crate::{
    look::{addresses, answered, label, taints},
    mock::instance_at,
    stage::{Setup, Stage},
    wait::DEADLINE,
};

const PAUSED: &str = "outrigger.dev.node-restriction.kubernetes.io/paused";
const TYPE: [&str; 2] = [
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
];
const ZONE: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
];
const REGION: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/region",
];
const A_WHILE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn n20_a_node_costs_three_writes_and_then_none() {
    let mut stage = Setup::synthesizing()
        .machines(Machine::numbered("n20-early-", 8))
        .start()
        .await;
    stage.all_synced("n20-early-", 8).await;
    stage.register_all(Machine::numbered("n20-late-", 8)).await;
    stage.all_synced("n20-late-", 8).await;
    for node in stage.named("n20-").await {
        let name = node.metadata.name.unwrap();
        let writes = [
            format!("PATCH /api/v1/nodes/{name}"),
            format!("PATCH /api/v1/nodes/{name}/status"),
            format!("POST Synced {name}"),
        ];
        assert_eq!(stage.writes_of(&name), writes);
    }
    assert_eq!(stage.writes().len(), 3 * 16);
    // N-5, E-7.
    for patch in stage
        .proxy
        .requests()
        .iter()
        .filter(|r| r.method == Method::PATCH)
    {
        let agent = patch.user_agent();
        let is_ours = agent.starts_with("outrigger/") && agent.ends_with(" node-controller");
        assert!(is_ours, "{agent}");
    }

    // Neither a change by another client nor a new start is a reason to write.
    stage
        .merge(
            "n20-late-00000",
            json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await;
    stage.silent(Duration::from_millis(500)).await;
    stage.restart_controller().await;
    stage.register(&Machine::new("marker")).await;
    stage.synced("marker").await;
    assert_eq!(stage.writes().len(), 3 * 17);
}

#[tokio::test]
async fn n15_n16_n46_labels_and_addresses_are_the_clouds_whatever_was_there() {
    let stage = Setup::mock(&[]).start().await;
    let addresses_of_both = ["10.0.0.3", "fd00::3", "Hostname=given"];
    for name in ["bare", "wrong"] {
        let spec = InstanceSpec {
            instance_type: Some("m5.large".parse().unwrap()),
            zone: Some("r1-b".parse().unwrap()),
            region: Some("r1".parse().unwrap()),
            ..instance_at(name, &addresses_of_both)
        };
        stage.mock.create(spec).await;
    }
    // Held until its list of addresses is empty.
    let bare = Machine::new("bare").label(PAUSED, "true");
    let mut node = stage.register(&bare).await;
    node.status.as_mut().unwrap().addresses = None;
    let (nodes, parameters) = (stage.nodes(), kube::api::PostParams::default());
    let node = nodes.replace_status("bare", &parameters, &node).await;
    assert_eq!(addresses(&node.unwrap()), [""; 0]);
    let release = json!({"metadata": {"labels": {PAUSED: null}}});
    stage.merge("bare", release).await;
    let wrong = [TYPE, ZONE, REGION].concat().into_iter();
    let wrong = wrong.fold(Machine::new("wrong"), |machine, key| {
        machine.label(key, "wrong")
    });
    stage.register(&wrong).await;
    for name in ["bare", "wrong"] {
        let node = stage.synced(name).await;
        for (keys, value) in [(TYPE, "m5.large"), (ZONE, "r1-b"), (REGION, "r1")] {
            for key in keys {
                assert_eq!(label(&node, key), Some(value), "{name} {key}");
            }
        }
        assert_eq!(label(&node, "kubernetes.io/hostname"), Some(name));
        let expected = [
            "InternalIP=10.0.0.3",
            "InternalIP=fd00::3",
            "Hostname=given",
        ];
        assert_eq!(addresses(&node), expected, "{name}");
    }
}

#[tokio::test]
async fn n14_an_address_that_the_instance_lacks_keeps_the_taint_until_it_has_it() {
    let mut stage = Setup::mock(&[]).start().await;
    stage.mock.create(instance_at("n14", &["10.0.0.5"])).await;
    let machine = Machine::new("n14").provided_ip("10.0.0.55".parse().unwrap());
    let node = stage.register(&machine).await;
    stage
        .controller
        .says(&["provided node ip for node \"n14\" is not valid: \
             failed to get node address from cloud provider that matches ip: 10.0.0.55"])
        .await;
    stage.mock.was_asked(3).await;
    stage.untouched("n14", A_WHILE).await;
    assert_eq!(stage.events_of(&node).await, []);

    // The cloud attaches it, and no client touches the node.
    stage.mock.delete("n14").await;
    stage
        .mock
        .create(instance_at("n14", &["10.0.0.5", "10.0.0.55"]))
        .await;
    let node = stage.synced("n14").await;
    assert_eq!(addresses(&node), ["InternalIP=10.0.0.55", "Hostname=n14"]);
}

async fn raw(stage: &Stage, name: &str) -> Value {
    let request = Request::get(format!("/api/v1/nodes/{name}"))
        .body(Vec::new())
        .unwrap();
    let client = stage.plane.client().unwrap();
    client.request(request).await.unwrap()
}

/// Takes what is at `path` out of `object`.
fn take(object: &mut Value, path: &[&str]) -> Value {
    let (last, parents) = path.split_last().unwrap();
    let parent = parents.iter().fold(object, |object, key| &mut object[*key]);
    parent
        .as_object_mut()
        .unwrap()
        .remove(*last)
        .unwrap_or_default()
}

#[tokio::test]
async fn q3_what_the_controller_does_not_know_of_a_node_stays_as_it_is() {
    let stage = Setup::synthesizing().start().await;
    // Held, so that there is a "before".
    let machine = Machine::new("q3")
        .label(PAUSED, "true")
        .label("example.com/pool", "a")
        .annotation("big", "\"\u{1}<&".repeat(40_000))
        .annotation("number", "9007199254740993")
        .taint("dedicated", Some("db"), "NoExecute");
    let registered = stage.register(&machine).await;
    // Says when a `NoExecute` taint evicts.
    let mut taints = json!(registered.spec.unwrap().taints);
    taints.as_array_mut().unwrap().insert(0, json!({
        "key": "theirs", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z",
    }));
    let spec = json!({
        "podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"], "unschedulable": true, "taints": taints,
    });
    let change = json!({
        "spec": spec,
        "metadata": {
            "finalizers": ["example.com/keep"],
            "labels": {PAUSED: null},
        },
    });
    stage.merge("q3", change).await;
    let mut before = raw(&stage, "q3").await;
    stage.synced("q3").await;
    let mut after = raw(&stage, "q3").await;

    for node in [&mut before, &mut after] {
        for path in [
            &["metadata", "managedFields"][..],
            &["metadata", "resourceVersion"],
            &["spec", "providerID"],
            &["status", "addresses"],
        ] {
            take(node, path);
        }
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.retain(|taint| taint["key"] != nodes::UNINITIALIZED_TAINT);
    }
    let old = take(&mut before, &["metadata", "labels"]);
    let new = take(&mut after, &["metadata", "labels"]);
    for (key, value) in old.as_object().unwrap() {
        assert_eq!(&new[key], value, "{key}");
    }
    assert_eq!(before, after);
    assert!(
        before["spec"]["podCIDR"].is_string(),
        "there was something to lose"
    );
    let requests = stage.proxy.requests();
    assert!(requests.iter().all(|request| request.method != Method::PUT));
    // The finalizer would keep the node for ever.
    stage
        .merge("q3", json!({"metadata": {"finalizers": null}}))
        .await;
}

/// Registers `machine` and makes `change` after the controller has read the node and before its
/// first patch arrives.
async fn overtake(stage: &Stage, machine: &Machine, change: Value) {
    let path = format!("/api/v1/nodes/{}", machine.name());
    let held = Fault::Delay(Duration::from_secs(2));
    let held = Rule::new(held)
        .method(Method::PATCH)
        .path_ends(path.clone());
    stage.proxy.inject(held.times(1));
    stage.register(machine).await;
    let sent = stage.proxy.wait_for(DEADLINE, |requests| {
        requests
            .iter()
            .any(|request| request.faulted && request.path == path)
    });
    sent.await.expect("the patch is sent");
    stage.merge(machine.name(), change).await;
}

fn patches(stage: &Stage, name: &str, code: u16) -> usize {
    let path = format!("/api/v1/nodes/{name}");
    let requests = stage.proxy.requests();
    let patches = requests
        .iter()
        .filter(|r| r.method == Method::PATCH && r.path == path);
    patches.filter(|request| answered(request, code)).count()
}

#[tokio::test]
async fn n20_a_taint_put_before_ours_meanwhile_is_not_lost() {
    let stage = Setup::synthesizing().start().await;
    let mut all = json!([{"key": "theirs", "effect": "NoExecute"}]);
    let ours = Machine::new("n20")
        .node(jiff::Timestamp::UNIX_EPOCH)
        .spec
        .unwrap()
        .taints;
    all.as_array_mut().unwrap().push(json!(ours.unwrap()[0]));
    let change = json!({"spec": {"taints": all}, "metadata": {"labels": {"theirs": "too"}}});
    overtake(&stage, &Machine::new("n20"), change).await;
    let node = stage.synced("n20").await;
    assert_eq!(patches(&stage, "n20", 422), 1, "it was not overtaken");
    assert_eq!(patches(&stage, "n20", 200), 1);
    assert_eq!(taints(&node), ["theirs=:NoExecute"]);
    assert_eq!(label(&node, "theirs"), Some("too"));
    assert_eq!(stage.events_of(&node).await.len(), 1);
}

#[tokio::test]
async fn the_first_node_of_a_distribution_is_initialised_and_keeps_its_taint() {
    // The taints of docs/distributions.md; a test of the lab has the Pod of the chart placed there.
    let bootstrap_taints = [
        "node-role.kubernetes.io/control-plane=:NoSchedule", // kubeadm, Talos
        "node-role.kubernetes.io/etcd=:NoExecute",           // Rancher
        "CriticalAddonsOnly=:NoExecute",                     // k3s, RKE2
        "node.cluster.x-k8s.io/uninitialized=:NoSchedule",   // Cluster API
    ];
    let stage = Setup::synthesizing().start().await;
    for (machine, taint) in Machine::numbered("first-", 4).zip(bootstrap_taints) {
        let (key, effect) = taint.split_once("=:").unwrap();
        let machine = machine
            .readiness(Readiness::NotReady)
            .taint(key, None, effect);
        stage.register(&machine).await;
        assert_eq!(taints(&stage.synced(machine.name()).await), [taint]);
    }
}

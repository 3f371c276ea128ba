//! Others write nodes too, and lose nothing (N-20, and instead of Q-3).

use std::time::Duration;

use futures::future::join_all;
use http::Method;
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::Machine,
};
use serde_json::{Value, json};

use crate::{
    look::{addresses, answered, label, provider_id, taints, uid},
    mock::instance,
    stage::{Setup, Stage},
    wait::DEADLINE,
};

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
async fn n13_and_n18_a_provider_id_or_a_label_written_meanwhile_wins() {
    let stage = Setup::mock(&["--label=example.com/pool=ours"])
        .start()
        .await;
    for name in ["n13", "n18"] {
        stage.mock.create(instance(name)).await;
    }
    let change = json!({"metadata": {"labels": {"example.com/pool": "theirs"}}});
    overtake(&stage, &Machine::new("n18"), change).await;
    let node = stage.synced("n18").await;
    assert_eq!(patches(&stage, "n18", 422), 1, "it was not overtaken");
    assert_eq!(label(&node, "example.com/pool"), Some("theirs"));

    let id = stage.mock.provider_id("n13").await;
    let theirs = format!("{id}-theirs");
    overtake(
        &stage,
        &Machine::new("n13"),
        json!({"spec": {"providerID": theirs}}),
    )
    .await;
    let node = stage.synced("n13").await;
    assert_eq!(patches(&stage, "n13", 422), 1, "it was not overtaken");
    assert_eq!(provider_id(&node), Some(&*theirs));
}

#[tokio::test]
async fn n20_a_node_that_registers_anew_meanwhile_is_another_node() {
    let stage = Setup::synthesizing().start().await;
    let machine = Machine::new("n20").label("life", "first");
    let held = Rule::new(Fault::Delay(Duration::from_secs(2))).method(Method::PATCH);
    stage.proxy.inject(held.times(1));
    let first = stage.register(&machine).await;
    let sent = stage
        .proxy
        .wait_for(DEADLINE, |requests| requests.iter().any(|r| r.faulted));
    sent.await.expect("the patch is sent");
    let parameters = kube::api::DeleteParams::default();
    stage.nodes().delete("n20", &parameters).await.unwrap();
    let second = stage.register(&Machine::new("n20")).await;
    assert_ne!(uid(&first), uid(&second));
    let node = stage.synced("n20").await;
    assert_eq!(uid(&node), uid(&second));
    assert_eq!(label(&node, "life"), None);
    assert_eq!(stage.events_of(&first).await, []);
}

#[tokio::test]
async fn n20_a_crowd_of_writers_loses_nothing() {
    const NODES: usize = 24;
    let stage = Setup::synthesizing().start().await;
    // Room for the others between our reading and our writing.
    let slow = Rule::new(Fault::Delay(Duration::from_millis(300)));
    stage
        .proxy
        .inject(slow.method(Method::PATCH).times(3 * NODES));
    stage.register_all(Machine::numbered("crowd-", NODES)).await;
    let crowd = (0..NODES).map(async |number| {
        let name = format!("crowd-{number:05}");
        for round in 0..4 {
            let key = format!("example.com/round-{round}");
            let labels = json!({&key: "was"});
            stage
                .merge(&name, json!({"metadata": {"labels": labels}}))
                .await;
            add_taint(&stage, &name, &key).await;
        }
    });
    join_all(crowd).await;
    for node in stage.all_synced("crowd-", NODES).await {
        let name = node.metadata.name.as_deref().unwrap();
        for round in 0..4 {
            let key = format!("example.com/round-{round}");
            assert_eq!(label(&node, &key), Some("was"), "{name}");
            assert!(
                taints(&node).contains(&format!("{key}=:PreferNoSchedule")),
                "{name}"
            );
        }
        assert_eq!(taints(&node).len(), 4, "{name}");
        assert!(addresses(&node).len() > 1, "{name}");
        assert_eq!(stage.events_of(&node).await.len(), 1, "{name}");
    }
    let overtaken = stage.proxy.requests();
    assert!(
        overtaken.iter().any(|request| answered(request, 422)),
        "no conflict"
    );
}

/// Does the same as `kubectl taint`: reads, writes with the version that was read, and tries again.
async fn add_taint(stage: &Stage, name: &str, key: &str) {
    loop {
        let mut node = stage.node(name).await;
        let taint = json!({"key": key, "effect": "PreferNoSchedule"});
        let taints = &mut node.spec.as_mut().unwrap().taints;
        taints
            .get_or_insert_default()
            .insert(0, serde_json::from_value(taint).unwrap());
        let parameters = kube::api::PostParams::default();
        match stage.nodes().replace(name, &parameters, &node).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

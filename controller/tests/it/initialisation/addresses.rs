//! `status.addresses`, right after the taint has gone.

use outrigger_api::v1::{self, instance_result::Outcome};
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    look::{addresses, is_tainted},
    mock::instance_at,
    scripted::{self, Scripted, handshake},
    stage::Setup,
};

#[tokio::test]
async fn n21_the_providers_addresses_are_written_in_its_order() {
    let stage = Setup::mock(&[]).start().await;
    let given = [
        "ExternalDNS=n21.example.com",
        "InternalIP=10.0.0.9",
        "ExternalIP=192.0.2.9",
        "InternalDNS=n21.internal",
        "Hostname=n21",
        "InternalIP=10.0.0.8",
    ];
    stage.mock.create(instance_at("n21", &given)).await;
    stage.register(&Machine::new("n21")).await;
    assert_eq!(addresses(&stage.synced("n21").await), given);
}

#[tokio::test]
async fn n24_and_n41_a_node_without_addresses_is_ready_and_keeps_its_own() {
    let backstage = Setup::without_provider().prepare().await;
    let _provider = Scripted::serve(backstage.dir(), handshake(), |node| {
        Outcome::Found(scripted::instance(&format!("mock://{}", node.name)))
    });
    let stage = backstage.start();
    stage.register(&Machine::new("n24")).await;
    let node = stage.synced("n24").await;
    assert!(!is_tainted(&node));
    assert_eq!(addresses(&node), ["Hostname=n24"]);
    let writes = ["PATCH /api/v1/nodes/n24", "POST Synced n24"];
    assert_eq!(stage.writes_of("n24"), writes);
}

#[tokio::test]
async fn n25_and_n42_a_host_name_is_the_providers_if_it_has_one_and_else_the_kubelets() {
    let stage = Setup::mock(&[]).start().await;
    let none = ["InternalIP=10.0.0.5", "ExternalIP=192.0.2.5"];
    stage.mock.create(instance_at("n42-none", &none)).await;
    // The kubelet, not this controller, decides if the host name must resemble the Node's name.
    let other = ["InternalIP=10.0.0.6", "Hostname=other.example.com"];
    stage.mock.create(instance_at("n42-other", &other)).await;
    stage.register(&Machine::new("n42-none")).await;
    stage.register(&Machine::new("n42-other")).await;
    let kept = [
        "InternalIP=10.0.0.5",
        "ExternalIP=192.0.2.5",
        "Hostname=n42-none",
    ];
    assert_eq!(addresses(&stage.synced("n42-none").await), kept);
    assert_eq!(addresses(&stage.synced("n42-other").await), other);
}

#[tokio::test]
async fn n46_addresses_replace_those_of_the_kubelet_and_fill_an_empty_list() {
    let stage = Setup::mock(&[]).start().await;
    for name in ["n46-full", "n46-empty"] {
        stage
            .mock
            .create(instance_at(name, &["10.0.0.3", "Hostname=given"]))
            .await;
    }
    // Held until its list is empty.
    let held = Machine::new("n46-empty").label(
        "outrigger.dev.node-restriction.kubernetes.io/paused",
        "true",
    );
    let mut node = stage.register(&held).await;
    node.status.as_mut().unwrap().addresses = None;
    let parameters = kube::api::PostParams::default();
    let node = stage
        .nodes()
        .replace_status("n46-empty", &parameters, &node)
        .await
        .unwrap();
    assert_eq!(addresses(&node), [""; 0]);
    stage
        .merge(
            "n46-empty",
            json!({"metadata": {"labels": {"outrigger.dev.node-restriction.kubernetes.io/paused": null}}}),
        )
        .await;
    stage
        .register(&Machine::new("n46-full").provided_ip("10.0.0.3".parse().unwrap()))
        .await;
    for name in ["n46-full", "n46-empty"] {
        let node = stage.synced(name).await;
        assert_eq!(
            addresses(&node),
            ["InternalIP=10.0.0.3", "Hostname=given"],
            "{name}"
        );
    }
}

#[tokio::test]
async fn n48_two_addresses_of_one_type_survive_in_their_order() {
    let stage = Setup::mock(&[]).start().await;
    let both = ["InternalIP=fd00::7", "InternalIP=10.0.0.7", "Hostname=n48"];
    stage.mock.create(instance_at("n48", &both)).await;
    stage.register(&Machine::new("n48")).await;
    assert_eq!(addresses(&stage.synced("n48").await), both);
}

/// The API server refuses a list that holds one address twice.
#[tokio::test]
async fn an_address_that_is_given_twice_is_written_once() {
    let backstage = Setup::without_provider().prepare().await;
    let _provider = Scripted::serve(backstage.dir(), handshake(), |node| {
        let mut instance = scripted::instance(&format!("mock://{}", node.name));
        let twice = ["10.0.0.1", "10.0.0.2", "10.0.0.1"];
        instance.addresses = twice
            .map(|address| v1::NodeAddress {
                r#type: "InternalIP".to_owned(),
                address: address.to_owned(),
            })
            .into();
        Outcome::Found(instance)
    });
    let stage = backstage.start();
    stage.register(&Machine::new("twice")).await;
    let once = [
        "InternalIP=10.0.0.1",
        "InternalIP=10.0.0.2",
        "Hostname=twice",
    ];
    assert_eq!(addresses(&stage.synced("twice").await), once);
}

//! Fields that a node gets from its instance: one case each. The tables are those of `core::node`.

use std::time::Duration;

use outrigger_api::v1::instance_result::Outcome;
use outrigger_provider_mock::instances::InstanceSpec;
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    look::{addresses, label, provider_id},
    mock::{instance, instance_at},
    scripted::{self, Scripted, handshake},
    stage::Setup,
};

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
async fn n15_and_n16_type_zone_and_region_are_written_in_both_generations_over_what_is_there() {
    let stage = Setup::mock(&[]).start().await;
    for name in ["n15-bare", "n15-wrong"] {
        stage
            .mock
            .create(InstanceSpec {
                instance_type: Some("m5.large".parse().unwrap()),
                zone: Some("r1-b".parse().unwrap()),
                region: Some("r1".parse().unwrap()),
                ..instance(name)
            })
            .await;
    }
    let wrong = [TYPE, ZONE, REGION].concat().into_iter();
    let wrong = wrong.fold(Machine::new("n15-wrong"), |machine, key| {
        machine.label(key, "wrong")
    });
    stage.register(&Machine::new("n15-bare")).await;
    stage.register(&wrong).await;
    for name in ["n15-bare", "n15-wrong"] {
        let node = stage.synced(name).await;
        for (keys, value) in [(TYPE, "m5.large"), (ZONE, "r1-b"), (REGION, "r1")] {
            for key in keys {
                assert_eq!(label(&node, key), Some(value), "{name} {key}");
            }
        }
        assert_eq!(label(&node, "kubernetes.io/hostname"), Some(name));
    }
}

#[tokio::test]
async fn n46_addresses_replace_those_of_the_kubelet_and_fill_an_empty_list() {
    let stage = Setup::mock(&[]).start().await;
    for name in ["n46-full", "n46-empty"] {
        stage
            .mock
            .create(instance_at(
                name,
                &["10.0.0.3", "fd00::3", "Hostname=given"],
            ))
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
    stage.register(&Machine::new("n46-full")).await;
    for name in ["n46-full", "n46-empty"] {
        let node = stage.synced(name).await;
        assert_eq!(
            addresses(&node),
            [
                "InternalIP=10.0.0.3",
                "InternalIP=fd00::3",
                "Hostname=given"
            ],
            "{name}"
        );
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

#[tokio::test]
async fn n31_a_cloud_without_provider_ids_needs_none() {
    let backstage = Setup::without_provider().prepare().await;
    let mut greeting = handshake();
    if let Some(instances) = greeting
        .capabilities
        .as_mut()
        .and_then(|c| c.instances.as_mut())
    {
        instances.without_provider_id = true;
    }
    let _provider = Scripted::serve(backstage.dir(), greeting, |_| {
        Outcome::Found(scripted::instance(""))
    });
    let stage = backstage.start();
    stage.register(&Machine::new("n31")).await;
    assert_eq!(provider_id(&stage.synced("n31").await), None);
}

#[tokio::test]
async fn a_node_of_another_provider_is_neither_asked_about_nor_written() {
    let stage = Setup::synthesizing().start().await;
    stage
        .register(&Machine::new("foreign").provider_id("other://i-1"))
        .await;
    stage.register(&Machine::new("ours")).await;
    stage.synced("ours").await;
    assert_eq!(stage.mock.asked().await, 1);
    assert_eq!(stage.writes_of("foreign"), [""; 0]);
}

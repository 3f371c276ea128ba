//! Labels that a node gets from its instance.

use outrigger_api::v1::instance_result::Outcome;
use outrigger_provider_mock::instances::InstanceSpec;
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    look::label,
    mock::instance,
    scripted::{self, Scripted, handshake},
    stage::Setup,
    wait::{holds, until},
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
async fn n17_what_the_provider_does_not_know_stays_as_it_is() {
    let backstage = Setup::without_provider().prepare().await;
    let _provider = Scripted::serve(backstage.dir(), handshake(), |node| {
        Outcome::Found(scripted::instance(&format!("mock://{}", node.name)))
    });
    let stage = backstage.start();
    let given = Machine::new("n17-given")
        .label(TYPE[1], "kept")
        .label(ZONE[1], "z-kept");
    stage.register(&Machine::new("n17-none")).await;
    stage.register(&given).await;
    let node = stage.synced("n17-given").await;
    assert_eq!(label(&node, TYPE[1]), Some("kept"));
    assert_eq!(label(&node, ZONE[1]), Some("z-kept"));
    for key in [TYPE[0], ZONE[0], REGION[0], REGION[1]] {
        assert_eq!(label(&node, key), None, "{key}");
    }
    let node = stage.synced("n17-none").await;
    for key in [TYPE, ZONE, REGION].concat() {
        assert_eq!(label(&node, key), None, "{key}");
    }
}

#[tokio::test]
async fn n18_additional_labels_are_added_but_neither_reserved_ones_nor_over_the_nodes_own() {
    let backstage = Setup::without_provider().prepare().await;
    let labels = [
        ("example.com/rack", "r1"),
        ("plain", "p"),
        ("mykubernetes.io/x", "fine"),
        ("example.com/own", "the provider's"),
        ("kubernetes.io/x", "no"),
        ("k8s.io/x", "no"),
        ("node-role.kubernetes.io/control-plane", ""),
        ("deep.below.k8s.io/x", "no"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.replace([' ', '\''], "-")));
    let _provider = Scripted::serve(backstage.dir(), handshake(), move |node| {
        let mut instance = scripted::instance(&format!("mock://{}", node.name));
        instance.additional_labels = labels.clone().into();
        Outcome::Found(instance)
    });
    let mut stage = backstage.start();
    stage
        .register(&Machine::new("n18").label("example.com/own", "mine"))
        .await;
    let node = stage.synced("n18").await;
    for (key, value) in [
        ("example.com/rack", Some("r1")),
        ("plain", Some("p")),
        ("mykubernetes.io/x", Some("fine")),
        ("example.com/own", Some("mine")),
        ("kubernetes.io/x", None),
        ("k8s.io/x", None),
        ("node-role.kubernetes.io/control-plane", None),
        ("deep.below.k8s.io/x", None),
    ] {
        assert_eq!(label(&node, key), value, "{key}");
    }
    for warning in [
        "discarding node label kubernetes.io/x with kubernetes namespace",
        "discarding node label example.com/own with value",
    ] {
        stage.controller.says(&["WARN", "n18", warning]).await;
    }
}

#[tokio::test]
async fn n18_type_zone_and_region_come_before_additional_labels() {
    let backstage = Setup::without_provider().prepare().await;
    let _provider = Scripted::serve(backstage.dir(), handshake(), |node| {
        let mut instance = scripted::instance(&format!("mock://{}", node.name));
        instance.zone = "right".to_owned();
        let label = ("topology.kubernetes.io/zone".to_owned(), "wrong".to_owned());
        instance.additional_labels = [label].into();
        Outcome::Found(instance)
    });
    let stage = backstage.start();
    stage.register(&Machine::new("n18")).await;
    let node = stage.synced("n18").await;
    assert_eq!(label(&node, "topology.kubernetes.io/zone"), Some("right"));
}

#[tokio::test]
async fn n35_to_n37_on_nodes_that_are_initialised_the_old_generation_wins_over_the_new_one() {
    let machines = [
        Machine::new("n35-beta")
            .label(ZONE[0], "z")
            .label(TYPE[0], "t"),
        Machine::new("n35-both")
            .label(REGION[0], "r")
            .label(REGION[1], "other"),
        Machine::new("n35-stable").label(ZONE[1], "z"),
    ];
    let stage = Setup::mock(&[])
        .machines(machines.map(Machine::initialized))
        .start()
        .await;
    let becomes = async |name: &str, key: &str, value: &str| {
        until(&format!("{key} of {name}"), async || {
            let node = stage.node(name).await;
            holds(label(&node, key) == Some(value), || {
                format!("{:?}", label(&node, key))
            })
        })
        .await;
    };
    becomes("n35-beta", ZONE[1], "z").await;
    becomes("n35-beta", TYPE[1], "t").await;
    becomes("n35-both", REGION[1], "r").await;
    for (key, value) in [(REGION[0], "edited"), (REGION[1], "reverted")] {
        stage
            .merge("n35-both", json!({"metadata": {"labels": {key: value}}}))
            .await;
        becomes("n35-both", REGION[1], "edited").await;
    }
    assert_eq!(stage.writes_of("n35-stable"), [""; 0]);
    assert_eq!(label(&stage.node("n35-stable").await, ZONE[0]), None);
    // A write for both labels, and a write for each edit.
    assert_eq!(stage.writes_of("n35-beta").len(), 1);
    assert_eq!(stage.writes_of("n35-both").len(), 3);
    assert_eq!(stage.writes().len(), 4, "an event, perhaps");
}

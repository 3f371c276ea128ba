//! Labels that a node gets from its instance.

use outrigger_api::v1::instance_result::Outcome;
use outrigger_provider_mock::instances::InstanceSpec;
use outrigger_testbed::nodes::Machine;

use crate::{
    look::label,
    mock::instance,
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

//! Nodes whose kubelet has `--node-ip`: N-14 and N-43.

use std::time::Duration;

use outrigger_testbed::nodes::{Machine, PROVIDED_IP_ANNOTATION};
use serde_json::json;

use crate::{look::addresses, mock::instance_at, stage::Setup, wait::until_within};

const A_WHILE: Duration = Duration::from_millis(500);

#[tokio::test]
async fn n43_the_provided_address_comes_first_and_hides_others_of_its_type() {
    let stage = Setup::mock(&[]).start().await;
    let of_instance = [
        "InternalIP=10.0.0.5",
        "InternalIP=10.0.0.55",
        "ExternalIP=192.0.2.5",
        "Hostname=n43",
    ];
    stage.mock.create(instance_at("n43", &of_instance)).await;
    let provided = "10.0.0.55".parse().unwrap();
    stage
        .register(&Machine::new("n43").provided_ip(provided))
        .await;
    assert_eq!(
        addresses(&stage.synced("n43").await),
        [
            "InternalIP=10.0.0.55",
            "ExternalIP=192.0.2.5",
            "Hostname=n43"
        ]
    );
}

#[tokio::test]
async fn n43_a_pair_is_honoured_in_its_order_and_by_number() {
    let stage = Setup::mock(&[]).start().await;
    let of_instance = |name: &str| {
        let hostname = format!("Hostname={name}");
        let all = [
            "10.0.0.5",
            "fd00::5",
            "10.0.0.6",
            "ExternalIP=192.0.2.5",
            &hostname,
        ];
        instance_at(name, &all)
    };
    let pairs = [
        (
            "n43-46",
            "10.0.0.6,fd00::5",
            ["InternalIP=10.0.0.6", "InternalIP=fd00::5"],
        ),
        (
            "n43-64",
            "fd00::5,10.0.0.5",
            ["InternalIP=fd00::5", "InternalIP=10.0.0.5"],
        ),
        // The same number, written otherwise.
        (
            "n43-long",
            "fd00:0:0::0005,10.0.0.5",
            ["InternalIP=fd00::5", "InternalIP=10.0.0.5"],
        ),
    ];
    for (name, value, _) in pairs {
        stage.mock.create(of_instance(name)).await;
        let machine = Machine::new(name).annotation(PROVIDED_IP_ANNOTATION, value);
        stage.register(&machine).await;
    }
    for (name, _, first) in pairs {
        let hostname = format!("Hostname={name}");
        let expected = [first[0], first[1], "ExternalIP=192.0.2.5", &hostname];
        assert_eq!(addresses(&stage.synced(name).await), expected, "{name}");
    }
}

#[tokio::test]
async fn n43_an_address_of_another_type_is_honoured_too() {
    let stage = Setup::mock(&[]).start().await;
    let of_instance = ["10.0.0.5", "ExternalIP=192.0.2.5", "ExternalIP=192.0.2.6"];
    stage.mock.create(instance_at("n43", &of_instance)).await;
    let machine = Machine::new("n43").annotation(PROVIDED_IP_ANNOTATION, "192.0.2.6");
    stage.register(&machine).await;
    assert_eq!(
        addresses(&stage.synced("n43").await),
        [
            "ExternalIP=192.0.2.6",
            "InternalIP=10.0.0.5",
            "Hostname=n43"
        ]
    );
}

#[tokio::test]
async fn n14_an_annotation_that_does_not_parse_keeps_the_taint_until_it_is_changed() {
    let mut stage = Setup::mock(&[]).start().await;
    let bad = [
        ("n14-word", "ten", "could not parse \"ten\""),
        (
            "n14-space",
            "10.0.0.5, fd00::5",
            "could not parse \" fd00::5\"",
        ),
        ("n14-empty", "", "could not parse \"\""),
        (
            "n14-family",
            "10.0.0.5,10.0.0.6",
            "must contain either a single IP or a dual-stack pair of IPs",
        ),
        (
            "n14-three",
            "10.0.0.5,fd00::5,10.0.0.6",
            "must contain either a single IP or a dual-stack pair",
        ),
        (
            "n14-any",
            "0.0.0.0,fd00::5",
            "dual-stack node IP cannot include '0.0.0.0' or '::'",
        ),
    ];
    for (name, value, _) in bad {
        stage
            .mock
            .create(instance_at(name, &["10.0.0.5", "fd00::5"]))
            .await;
        let machine = Machine::new(name).annotation(PROVIDED_IP_ANNOTATION, value);
        stage.register(&machine).await;
    }
    for (name, value, why) in bad {
        let sentence = format!(
            "failed to get node modifiers from cloud provider: provided node ip for node {name:?} \
             is not valid: failed to parse node IP {value:?}: {why}"
        );
        stage.controller.says(&[&sentence]).await;
    }
    for (name, ..) in bad {
        stage.untouched(name, Duration::from_millis(100)).await;
        let annotation = json!({PROVIDED_IP_ANNOTATION: "fd00::5"});
        stage
            .merge(name, json!({"metadata": {"annotations": annotation}}))
            .await;
        let hostname = format!("Hostname={name}");
        let node = stage.synced(name).await;
        assert_eq!(
            addresses(&node),
            ["InternalIP=fd00::5", &hostname],
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

/// `kubectl describe node` shows why it waits, once that takes longer than a new instance does.
#[tokio::test]
async fn a_node_that_cannot_be_initialised_says_why() {
    let stage = Setup::mock(&[]).start().await;
    let at = instance_at("waits", &["10.0.0.5"]);
    stage.mock.create(at).await;
    let machine = Machine::new("waits").provided_ip("10.0.0.55".parse().unwrap());
    let node = stage.register(&machine).await;
    let first = async || stage.events_of(&node).await.into_iter().next();
    let first_event = async || first().await.ok_or_else(|| "no event".to_owned());
    let event = until_within("an event", Duration::from_mins(2), first_event).await;
    assert_eq!(event.reason.as_deref(), Some("FailedToInitialize"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let message = event.message.unwrap();
    assert!(
        message
            .contains("failed to get node address from cloud provider that matches ip: 10.0.0.55"),
        "{message}"
    );
}

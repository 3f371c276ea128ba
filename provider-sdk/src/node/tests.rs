use std::time::Duration;

use super::*;

fn wire() -> v1::Node {
    v1::Node {
        name: "n-1".to_owned(),
        uid: "u-1".to_owned(),
        provider_id: "test://n-1".to_owned(),
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        annotations: [("x".to_owned(), "y".to_owned())].into(),
        addresses: [
            ("InternalIP", "192.0.2.1"),
            ("ExternalIP", "2001:db8::1"),
            ("Hostname", "n-1"),
            ("InternalIP", "n-1"),
            ("VpnIP", "192.0.2.2"),
        ]
        .map(|(kind, address)| v1::NodeAddress {
            r#type: kind.to_owned(),
            address: address.to_owned(),
        })
        .into(),
        pod_cidrs: vec!["10.0.0.0/24".to_owned()],
        taints: vec![v1::Taint {
            key: "k".to_owned(),
            value: "v".to_owned(),
            effect: "NoExecute".to_owned(),
        }],
        ready: "True".to_owned(),
        unschedulable: true,
        creation_time: Some(prost_types::Timestamp {
            seconds: 60,
            nanos: 5,
        }),
        deletion_time: None,
        system_uuid: "s-1".to_owned(),
    }
}

#[test]
fn every_field_arrives() {
    let other = |kind: &str, address: &str| Address::Other {
        kind: kind.to_owned(),
        address: address.to_owned(),
    };
    let expected = Node::new("n-1")
        .with_uid("u-1")
        .with_provider_id("test://n-1")
        .with_labels([("zone".to_owned(), "a".to_owned())])
        .with_annotations([("x".to_owned(), "y".to_owned())])
        .with_addresses([
            Address::InternalIp([192, 0, 2, 1].into()),
            Address::ExternalIp([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()),
            Address::Hostname("n-1".to_owned()),
            other("InternalIP", "n-1"),
            other("VpnIP", "192.0.2.2"),
        ])
        .with_pod_cidrs(["10.0.0.0/24".to_owned()])
        .with_taints([Taint::new("k", "v", "NoExecute")])
        .with_ready(true)
        .with_unschedulable(true)
        .with_creation_time(SystemTime::UNIX_EPOCH + Duration::new(60, 5))
        .with_system_uuid("s-1");
    assert_eq!(Node::from_wire(wire()), expected);
}

#[test]
fn a_status_that_is_neither_true_nor_false_is_unknown() {
    for (ready, expected) in [
        ("True", Some(true)),
        ("False", Some(false)),
        ("Unknown", None),
        ("", None),
    ] {
        let ready = ready.to_owned();
        let node = Node::from_wire(v1::Node { ready, ..wire() });
        assert_eq!(node.ready, expected);
    }
}

/// A cluster's Nodes come with each node set, so that a copy of their texts would cost most of it.
#[test]
fn texts_are_moved_and_not_copied() {
    let wire = wire();
    let text = |text: &str| text.as_ptr();
    let before = [
        text(&wire.name),
        text(&wire.provider_id),
        text(&wire.labels["zone"]),
        text(&wire.annotations["x"]),
        text(&wire.pod_cidrs[0]),
        text(&wire.taints[0].key),
    ];
    let node = Node::from_wire(wire);
    let after = [
        text(&node.name),
        text(&node.provider_id),
        text(&node.labels["zone"]),
        text(&node.annotations["x"]),
        text(&node.pod_cidrs[0]),
        text(&node.taints[0].key),
    ];
    assert_eq!(before, after);
}

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::RouteNodes;
use crate::{
    fixture::{addresses, cidr, map, raw_route, registered, route, routed},
    node::{LABEL_PAUSED, NodeView},
    route::RawRoute,
};

///
#[test]
fn a_node_that_changed_has_its_destinations_reconciled() {
    let mut nodes = RouteNodes::default();
    let mut observe = |node: &NodeView| {
        let destinations = nodes.observe(&Arc::new(node.clone()));
        destinations
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let a = routed("a", 1, "10.244.1.0/24 FD00::/64 junk");
    let both = ["10.244.1.0/24", "fd00::/64"];
    assert_eq!(observe(&a), both);
    let alike = NodeView {
        resource_version: "9".into(),
        ..a.clone()
    };
    assert!(observe(&alike).is_empty());
    for changed in [
        NodeView {
            addresses: addresses("InternalIP=192.168.0.2"),
            ..a.clone()
        },
        NodeView {
            provider_id: "cloud://b".into(),
            ..a.clone()
        },
        NodeView {
            uid: "2".into(),
            ..a.clone()
        },
        NodeView {
            labels: map(&[("pool", "b")]),
            ..a.clone()
        },
        NodeView {
            labels: map(&[(LABEL_PAUSED, "true")]),
            ..a.clone()
        },
        NodeView {
            taints: registered("a").taints,
            ..a.clone()
        },
        a.clone(),
    ] {
        assert_eq!(observe(&changed), both);
    }
    // The CIDRs that it had and those that it has.
    assert_eq!(
        observe(&routed("a", 1, "10.244.2.0/24")),
        ["10.244.1.0/24", "10.244.2.0/24", "fd00::/64"]
    );
    assert!(nodes.forget("a", "another UID").is_empty());
    assert_eq!(nodes.destinations().count(), 1);
    assert_eq!(
        nodes.forget("a", "uid-a"),
        BTreeSet::from([cidr("10.244.2.0/24")])
    );
    assert_eq!(nodes.destinations().count(), 0);
}

#[test]
fn the_nodes_of_a_destination_and_of_a_route() {
    let mut nodes = RouteNodes::default();
    for (name, last, age) in [("c", 3, 9), ("b", 2, 1), ("a", 1, 9)] {
        let node = routed(name, last, "10.244.1.0/24");
        let created = Timestamp::UNIX_EPOCH - Duration::from_secs(age);
        nodes.observe(&Arc::new(NodeView { created, ..node }));
    }
    let names: Vec<_> = nodes
        .with(cidr("10.244.1.0/24"))
        .map(|node| &*node.name)
        .collect();
    // The oldest first, then by name.
    assert_eq!(names, ["a", "c", "b"]);
    assert_eq!(nodes.with(cidr("10.244.1.0/25")).count(), 0);
    assert_eq!(nodes.get("b").map(|node| &*node.uid), Some("uid-b"));
    assert_eq!(nodes.get("d"), None);
    let by_id = RawRoute {
        provider_id: "cloud://b".into(),
        ..raw_route("10.244.9.0/24", "")
    };
    assert_eq!(
        nodes.target_of(&by_id.check().unwrap()).as_deref(),
        Some("b")
    );
    assert_eq!(
        nodes.target_of(&route("10.244.9.0/24", "gone")).as_deref(),
        Some("gone")
    );
    assert_eq!(nodes.target_of(&route("10.244.9.0/24", "")), None);
    // No Node can have this name, so that none is asked for.
    for name in ["old machine", "../secrets", "a/b"] {
        assert_eq!(nodes.target_of(&route("10.244.9.0/24", name)), None);
    }
}

/// The owner of the route depends on both; and a kubelet does not bring work about others as often as it likes.
#[test]
fn a_change_that_concerns_others_has_their_destinations_reconciled() {
    let mut nodes = RouteNodes::default();
    nodes.observe(&Arc::new(routed("a", 1, "10.244.1.0/24")));
    nodes.observe(&Arc::new(routed("b", 2, "10.244.2.0/24")));
    let both = [cidr("10.244.1.0/24"), cidr("10.244.1.128/25")];
    let c = routed("c", 3, "10.244.1.128/25");
    assert_eq!(nodes.observe(&Arc::new(c.clone())), BTreeSet::from(both));
    let uninitialized = NodeView {
        taints: registered("c").taints,
        ..c.clone()
    };
    assert_eq!(
        nodes.observe(&Arc::new(uninitialized)),
        BTreeSet::from(both)
    );
    assert_eq!(nodes.observe(&Arc::new(c.clone())), BTreeSet::from(both));
    let labelled = NodeView {
        labels: map(&[("pool", "b")]),
        ..c.clone()
    };
    assert_eq!(
        nodes.observe(&Arc::new(labelled)),
        BTreeSet::from([both[1]])
    );
    // Without a provider ID its labels decide whose Node it is.
    let mut unnamed = NodeView {
        provider_id: "".into(),
        ..c
    };
    assert_eq!(
        nodes.observe(&Arc::new(unnamed.clone())),
        BTreeSet::from(both)
    );
    unnamed.addresses = addresses("InternalIP=192.168.0.9");
    assert_eq!(
        nodes.observe(&Arc::new(unnamed.clone())),
        BTreeSet::from([both[1]])
    );
    unnamed.labels = map(&[("pool", "b")]);
    assert_eq!(nodes.observe(&Arc::new(unnamed)), BTreeSet::from(both));
    assert_eq!(nodes.forget("c", "uid-c"), BTreeSet::from(both));
}

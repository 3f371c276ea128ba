use std::sync::Arc;

use super::Fit;
use crate::{
    fixture::{addresses, cidr, raw_route, registered, routed},
    node::NodeView,
    route::{ObservedRoute, RawRoute, WantedRoute},
};

const A: &str = "10.244.1.0/24";

/// a route to Node `a` with the address 192.168.0.1.
#[test]
fn a_route_leads_to_the_node_that_it_names() {
    let a = routed("a", 1, "10.244.1.0/24");
    // Name, provider ID, next hop.
    let fit = |[name, id, hop]: [&str; 3], node: &NodeView| {
        let raw = RawRoute {
            node_name: name.into(),
            provider_id: id.into(),
            next_hop_ip: hop.into(),
            ..raw_route("10.244.1.0/24", "")
        };
        raw.check().unwrap().fit(node)
    };
    let uninitialized = NodeView {
        provider_id: "".into(),
        addresses: addresses("InternalIP=192.168.0.1"),
        ..registered("a")
    };
    let without_addresses = NodeView {
        addresses: [].into(),
        ..a.clone()
    };
    let without_id = NodeView {
        provider_id: "".into(),
        ..a.clone()
    };
    for (target, initialized, not_yet) in [
        (["a", "", ""], Fit::Right, Fit::Right),
        (["a", "cloud://a", "192.168.0.1"], Fit::Right, Fit::Right),
        // The first that both have decides.
        (["a", "cloud:///a", "192.168.0.2"], Fit::Right, Fit::Right),
        (["b", "cloud://a", "192.168.0.1"], Fit::Other, Fit::Other),
        (["A", "", ""], Fit::Right, Fit::Right),
        (["old machine", "cloud://a", ""], Fit::Other, Fit::Other),
        (["", "cloud://a", ""], Fit::Right, Fit::Undecided),
        (["", "cloud://b", ""], Fit::Other, Fit::Undecided),
        (["", "cloud://a", "192.168.0.2"], Fit::Right, Fit::Undecided),
        (["", "", "192.168.0.1"], Fit::Right, Fit::Right),
        (["", "", "::ffff:192.168.0.1"], Fit::Right, Fit::Right),
        (["", "", "192.168.0.2"], Fit::Other, Fit::Undecided),
        // The Node reports no address of this family.
        (["", "", "fd01::1"], Fit::Undecided, Fit::Undecided),
        (["", "", ""], Fit::Undecided, Fit::Undecided),
    ] {
        assert_eq!(fit(target, &a), initialized, "{target:?}");
        assert_eq!(fit(target, &uninitialized), not_yet, "{target:?}");
    }
    // Nothing to compare with.
    assert_eq!(
        fit(["", "", "192.168.0.2"], &without_addresses),
        Fit::Undecided
    );
    assert_eq!(fit(["", "cloud://b", ""], &without_id), Fit::Undecided);
    assert_eq!(fit(["a", "cloud://b", ""], &without_id), Fit::Right);
}

///
#[test]
fn addresses_are_compared_as_sets_where_the_provider_wants_it() {
    let a = routed("a", 1, "10.244.1.0/24");
    let fit = |words: &str, compares_addresses, node: &NodeView| {
        let raw = RawRoute {
            node_addresses: addresses(words).into(),
            compares_addresses,
            ..raw_route("10.244.1.0/24", "a")
        };
        raw.check().unwrap().fit(node)
    };
    assert_eq!(fit("InternalIP=10.9.9.9", false, &a), Fit::Right);
    assert_eq!(fit("InternalIP=10.9.9.9", true, &a), Fit::Outdated);
    assert_eq!(
        fit("Hostname=a InternalIP=192.168.0.1", true, &a),
        Fit::Right
    );
    let without_addresses = NodeView {
        addresses: [].into(),
        ..a
    };
    assert_eq!(fit("Hostname=a", true, &without_addresses), Fit::Right);
}

fn made_for(raw: RawRoute, node: &NodeView) -> ObservedRoute {
    let mut route = raw.check().unwrap();
    route.made_for = Some(Arc::new(WantedRoute::of(cidr(A), node)));
    route
}

/// The same Node on another machine, or with another next hop; a route whose fields never were the Node's says nothing.
#[test]
fn a_route_of_a_node_that_has_moved_is_replaced() {
    let before = routed("a", 1, A);
    let moved = NodeView {
        provider_id: "cloud://b".into(),
        ..before.clone()
    };
    let readdressed = NodeView {
        addresses: addresses("InternalIP=192.168.0.9"),
        ..before.clone()
    };
    let by_name = |hop: &str| RawRoute {
        next_hop_ip: hop.into(),
        ..raw_route(A, "a")
    };
    for (hop, node, expected) in [
        ("", &before, Fit::Right),
        ("192.168.0.1", &before, Fit::Right),
        ("192.0.2.7", &before, Fit::Right),
        ("", &moved, Fit::Replaced),
        ("192.0.2.7", &moved, Fit::Replaced),
        ("", &readdressed, Fit::Right),
        ("192.168.0.1", &readdressed, Fit::Replaced),
        ("192.0.2.7", &readdressed, Fit::Right),
    ] {
        assert_eq!(made_for(by_name(hop), &before).fit(node), expected, "{hop}");
    }
    // It leads to another Node by now.
    let other = made_for(raw_route(A, "a"), &routed("b", 2, A));
    assert_eq!(other.fit(&before), Fit::Right);
}

/// The cloud spells it in its own way, or has other names for its machines.
#[test]
fn a_route_is_that_of_the_node_it_was_made_for_whatever_target_it_shows() {
    let a = routed("a", 1, A);
    let moved = NodeView {
        provider_id: "cloud://c".into(),
        ..a.clone()
    };
    for [name, id, hop] in [
        ["b", "", ""],
        ["", "cloud:///a", ""],
        ["", "", "192.168.0.2"],
        ["", "", ""],
    ] {
        let raw = RawRoute {
            provider_id: id.into(),
            next_hop_ip: hop.into(),
            ..raw_route(A, name)
        };
        let route = made_for(raw, &a);
        assert_eq!(route.fit(&a), Fit::Right, "{name} {id} {hop}");
        assert_ne!(route.fit(&moved), Fit::Right, "{name} {id} {hop}");
    }
    let by_hop = RawRoute {
        next_hop_ip: "192.168.0.1".into(),
        ..raw_route(A, "")
    };
    let readdressed = NodeView {
        addresses: addresses("InternalIP=192.168.0.9"),
        ..a.clone()
    };
    assert_eq!(made_for(by_hop, &a).fit(&readdressed), Fit::Other);

    // Another order of the Node's addresses is no news.
    let two = |words: &str| NodeView {
        addresses: addresses(words),
        ..a.clone()
    };
    let before = two("InternalIP=192.168.0.1 InternalIP=192.168.0.9");
    let rotated = two("InternalIP=192.168.0.9 InternalIP=192.168.0.1");
    let compared = RawRoute {
        compares_addresses: true,
        ..raw_route(A, "a")
    };
    let route = made_for(compared, &before);
    assert_eq!(route.fit(&rotated), Fit::Right);
    let other = two("InternalIP=192.168.0.9 InternalIP=192.168.0.8");
    assert_eq!(route.fit(&other), Fit::Outdated);
}

use super::{Fit, RawRoute, WantedRoute};
use crate::{
    fixture::{addresses, cidr, raw_route, registered, route, routed},
    node::{NodeAddress, NodeView},
};

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
        (["b", "cloud://a", "192.168.0.1"], Fit::Other, Fit::Other),
        // The machine was replaced under the Node's name.
        (["a", "cloud://b", ""], Fit::Replaced, Fit::Right),
        (["a", "", "192.168.0.2"], Fit::Replaced, Fit::Right),
        (["", "cloud://a", ""], Fit::Right, Fit::Undecided),
        (["", "cloud://b", ""], Fit::Other, Fit::Undecided),
        (
            ["", "cloud://a", "192.168.0.2"],
            Fit::Replaced,
            Fit::Undecided,
        ),
        (["", "", "192.168.0.1"], Fit::Right, Fit::Right),
        (["", "", "::ffff:192.168.0.1"], Fit::Right, Fit::Right),
        (["", "", "192.168.0.2"], Fit::Other, Fit::Undecided),
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

///
#[test]
fn a_route_that_breaks_a_limit_is_left_alone() {
    assert_eq!(route("FD00:0::9/64", "a").destination(), cidr("fd00::/64"));
    let raw = || raw_route("10.244.1.0/24", "a");
    let one = NodeAddress {
        kind: "InternalIP".into(),
        address: "10.0.0.1".into(),
    };
    for (raw, text) in [
        (
            raw_route("10.244.1.0", "a"),
            "the provider's route destination_cidr \"10.244.1.0\" is no CIDR",
        ),
        (
            RawRoute {
                next_hop_ip: "gateway".into(),
                ..raw()
            },
            "the provider's route next_hop_ip \"gateway\" is no IP address",
        ),
        (
            RawRoute {
                node_addresses: vec![one; 65],
                ..raw()
            },
            "the provider's route node_addresses has 65 entries, more than 64",
        ),
    ] {
        assert_eq!(raw.check().unwrap_err().to_string(), text);
    }
    for text in [
        RawRoute {
            name: "x".repeat(1025),
            ..raw()
        },
        RawRoute {
            node_name: "x".repeat(1025),
            ..raw()
        },
        RawRoute {
            provider_id: "x".repeat(1025),
            ..raw()
        },
    ] {
        assert!(text.check().is_err());
    }
}

///
#[test]
fn a_route_that_was_made_leads_to_its_node() {
    let a = routed("a", 1, "10.244.1.0/24");
    let wanted = WantedRoute::of(cidr("10.244.1.0/24"), &a);
    assert_eq!(
        (&*wanted.node_name, &*wanted.node_uid, &*wanted.provider_id),
        ("a", "uid-a", "cloud://a")
    );
    assert_eq!(wanted.node_addresses, a.addresses);
    let made = wanted.as_made();
    assert_eq!(made.fit(&a), Fit::Right);
    assert_eq!(made.raw().clone().check().unwrap(), made);
}

#[test]
fn a_route_that_leads_elsewhere_is_not_the_one_that_was_made() {
    let wanted = WantedRoute::of(cidr("10.244.1.0/24"), &routed("a", 1, "10.244.1.0/24"));
    let is_shown = |change: fn(&mut RawRoute)| {
        let mut raw = wanted.as_made().raw().clone();
        change(&mut raw);
        wanted.is_shown_by(&raw.check().unwrap())
    };
    assert!(is_shown(|_| {}));
    assert!(is_shown(|raw| raw.node_name.clear()));
    assert!(is_shown(|raw| raw.next_hop_ip = "192.168.0.1".into()));
    assert!(is_shown(|raw| raw.compares_addresses = true));
    let changes: [fn(&mut RawRoute); 7] = [
        |raw| raw.destination_cidr = "10.244.2.0/24".into(),
        |raw| raw.node_name = "b".into(),
        |raw| raw.provider_id = "cloud://b".into(),
        |raw| raw.next_hop_ip = "192.168.0.2".into(),
        |raw| raw.is_blackhole = true,
        |raw| {
            raw.node_name.clear();
            raw.provider_id.clear();
        },
        |raw| {
            raw.compares_addresses = true;
            raw.node_addresses.clear();
        },
    ];
    for change in changes {
        assert!(!is_shown(change));
    }
}

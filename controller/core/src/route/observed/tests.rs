use super::{RawRoute, WantedRoute};
use crate::{
    fixture::{cidr, raw_route, route, routed},
    node::NodeAddress,
    route::fit::Fit,
};

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
    let longest = RawRoute {
        name: "x".repeat(1024),
        ..raw()
    };
    assert!(longest.check().is_ok());
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
    let desired = WantedRoute::of(cidr("10.244.1.0/24"), &a);
    assert_eq!(
        (
            &*desired.node_name,
            &*desired.node_uid,
            &*desired.provider_id
        ),
        ("a", "uid-a", "cloud://a")
    );
    assert_eq!(desired.node_addresses, a.addresses);
    let made = desired.as_made();
    assert_eq!(made.fit(&a), Fit::Right);
    let raw = made.raw();
    assert_eq!((&*raw.node_name, &*raw.provider_id), ("a", "cloud://a"));
    assert_eq!(*raw.node_addresses, *a.addresses);
    assert_eq!(made.raw().clone().check().unwrap(), made);
}

use proptest::prelude::*;

use super::{Error, check_provided, desired, parse_ip};
use crate::{
    error_class::ErrorClass,
    fixture::{addresses, any_instance, any_node, registered, with_provided_ip},
    node::NodeView,
};

/// A node with `existing` addresses whose kubelet was given `provided`, if anything.
fn node(existing: &str, provided: Option<&str>) -> NodeView {
    let node = NodeView {
        addresses: addresses(existing),
        ..registered("n6")
    };
    match provided {
        Some(value) => with_provided_ip(node, value),
        None => node,
    }
}

fn no_match(ip: &str) -> Error {
    Error::NoMatch {
        ip: ip.parse().unwrap(),
    }
}

#[test]
fn n41_no_addresses_leave_the_status_alone() {
    let node = node("InternalIP=10.0.0.5 Hostname=n6", None);
    assert_eq!(desired(&node, &[]), Ok(None));
    // Not even a provided IP that nothing can match is a reason to touch it.
    let node = with_provided_ip(node, "10.0.0.5");
    assert_eq!(desired(&node, &[]), Ok(None));
}

#[test]
fn n42_the_kubelets_host_names_stay_unless_the_provider_has_one() {
    let node = node("Hostname=n6 InternalIP=10.0.0.9 Hostname=n6.local", None);
    for (given, expected) in [
        (
            "InternalIP=10.0.0.5",
            "InternalIP=10.0.0.5 Hostname=n6 Hostname=n6.local",
        ),
        (
            "InternalDNS=n6.internal",
            "InternalDNS=n6.internal Hostname=n6 Hostname=n6.local",
        ),
        (
            "Hostname=cloud InternalIP=10.0.0.5",
            "Hostname=cloud InternalIP=10.0.0.5",
        ),
    ] {
        assert_eq!(
            desired(&node, &addresses(given)),
            Ok(Some(addresses(expected))),
            "{given}"
        );
    }
}

#[test]
fn n43_the_provided_ip_comes_first_and_alone_of_its_type() {
    for (provided, given, expected) in [
        // The example of the reference.
        (
            "10.0.0.55",
            "InternalIP=10.0.0.5 InternalIP=10.0.0.55 ExternalIP=198.51.100.7 Hostname=h",
            "InternalIP=10.0.0.55 ExternalIP=198.51.100.7 Hostname=h",
        ),
        // An address of two types is listed under both, and both types are taken.
        (
            "10.0.0.55",
            "ExternalIP=10.0.0.55 InternalIP=10.0.0.5 InternalIP=10.0.0.55 ExternalIP=1.1.1.1 Hostname=h",
            "ExternalIP=10.0.0.55 InternalIP=10.0.0.55 Hostname=h",
        ),
        // All addresses of the other types stay.
        (
            "10.0.0.5",
            "ExternalIP=1.1.1.1 InternalIP=10.0.0.5 ExternalIP=2.2.2.2 Hostname=h Hostname=i",
            "InternalIP=10.0.0.5 ExternalIP=1.1.1.1 ExternalIP=2.2.2.2 Hostname=h Hostname=i",
        ),
        // A pair, in the annotation's order and not in the provider's.
        (
            "fd00::5,10.0.0.5",
            "InternalIP=10.0.0.5 InternalIP=10.0.0.6 InternalIP=fd00::5 Hostname=h",
            "InternalIP=fd00::5 InternalIP=10.0.0.5 Hostname=h",
        ),
        (
            "10.0.0.5,fd00::5",
            "Hostname=h InternalIP=fd00::5 InternalIP=10.0.0.5",
            "InternalIP=10.0.0.5 InternalIP=fd00::5 Hostname=h",
        ),
        // Numbers are compared, not texts.
        (
            "FD00:0::0005",
            "InternalIP=fd00::5 Hostname=h",
            "InternalIP=fd00::5 Hostname=h",
        ),
        (
            "010.000.0.05",
            "InternalIP=10.0.0.5 Hostname=h",
            "InternalIP=10.0.0.5 Hostname=h",
        ),
        (
            "::ffff:10.0.0.5",
            "InternalIP=10.0.0.5 Hostname=h",
            "InternalIP=10.0.0.5 Hostname=h",
        ),
        // A host name that is an IP address is an address too.
        (
            "10.0.0.5",
            "InternalIP=10.0.0.5 Hostname=10.0.0.5",
            "InternalIP=10.0.0.5 Hostname=10.0.0.5",
        ),
        // A single unspecified address is legal, as upstream, if the provider has it.
        (
            "0.0.0.0",
            "InternalIP=0.0.0.0 Hostname=h",
            "InternalIP=0.0.0.0 Hostname=h",
        ),
    ] {
        let node = node("", Some(provided));
        assert_eq!(
            desired(&node, &addresses(given)),
            Ok(Some(addresses(expected))),
            "{provided} of {given}"
        );
    }
}

#[test]
fn n43_an_annotation_that_is_no_ip_or_pair_is_an_error() {
    let not_an_ip = |part: &str| format!("could not parse {part:?}");
    let not_a_pair = "must contain either a single IP or a dual-stack pair of IPs".to_owned();
    let unspecified = "dual-stack node IP cannot include '0.0.0.0' or '::'".to_owned();
    let instance = addresses("InternalIP=10.0.0.5 InternalIP=fd00::5 InternalIP=10.0.0.6");
    for (value, reason) in [
        ("", not_an_ip("")),
        ("nonsense", not_an_ip("nonsense")),
        ("10.0.0.5/24", not_an_ip("10.0.0.5/24")),
        ("10.0.0.256", not_an_ip("10.0.0.256")),
        ("10.0.0", not_an_ip("10.0.0")),
        ("10.0.0.5.6", not_an_ip("10.0.0.5.6")),
        ("10.0.0.+5", not_an_ip("10.0.0.+5")),
        ("fe80::1%eth0", not_an_ip("fe80::1%eth0")),
        ("10.0.0.5, fd00::5", not_an_ip(" fd00::5")),
        ("10.0.0.5,", not_an_ip("")),
        ("10.0.0.5,10.0.0.6", not_a_pair.clone()),
        ("10.0.0.5,::ffff:10.0.0.6", not_a_pair.clone()),
        ("fd00::5,fd00::6", not_a_pair.clone()),
        ("10.0.0.5,fd00::5,10.0.0.6", not_a_pair.clone()),
        ("0.0.0.0,fd00::5", unspecified.clone()),
        ("10.0.0.5,::", unspecified.clone()),
    ] {
        let node = node("", Some(value));
        let error = desired(&node, &instance).unwrap_err();
        let expected = Error::Parse {
            value: value.into(),
            reason,
        };
        assert_eq!(error, expected);
        assert_eq!(error.class(), ErrorClass::Invalid);
        assert_eq!(check_provided(&node, &instance), Err(expected));
    }
}

#[test]
fn n43_an_ip_that_the_instance_lacks_is_an_error() {
    for (provided, given, missing) in [
        ("10.0.0.9", "InternalIP=10.0.0.5", "10.0.0.9"),
        (
            "10.0.0.5,fd00::9",
            "InternalIP=10.0.0.5 InternalIP=fd00::5",
            "fd00::9",
        ),
        ("::ffff:10.0.0.9", "InternalIP=10.0.0.5", "10.0.0.9"),
        ("10.0.0.5", "InternalDNS=10.0.0.5.internal", "10.0.0.5"),
    ] {
        let node = node("", Some(provided));
        let error = desired(&node, &addresses(given)).unwrap_err();
        assert_eq!(error, no_match(missing));
        // The address may be attached later.
        assert_eq!(error.class(), ErrorClass::NotReady);
    }
    // Before the taint goes, an instance without any address lacks it too (N-14).
    let node = node("Hostname=10.0.0.5", Some("10.0.0.5"));
    assert_eq!(check_provided(&node, &[]), Err(no_match("10.0.0.5")));
}

/// H-2.
#[test]
fn ips_are_parsed_by_their_number() {
    for (text, ip) in [
        ("010.000.00000.1", Some("10.0.0.1")),
        ("::ffff:010.0.0.1", Some("10.0.0.1")),
        ("64:ff9b::10.0.0.01", Some("64:ff9b::a00:1")),
        ("::", Some("::")),
        ("10.0.0.1000", None),
        ("10..0.1", None),
        ("0x0a.0.0.1", None),
        (":10.0.0.1", None),
        ("[fd00::1]", None),
        (" 10.0.0.1", None),
    ] {
        assert_eq!(parse_ip(text), ip.map(|ip| ip.parse().unwrap()), "{text}");
    }
}

/// The API server refuses a status with a repeated address.
#[test]
fn a_repeated_address_is_written_once() {
    let given = "InternalIP=10.0.0.5 Hostname=n6 InternalIP=10.0.0.5 ExternalIP=10.0.0.5";
    let expected = "InternalIP=10.0.0.5 Hostname=n6 ExternalIP=10.0.0.5";
    assert_eq!(
        desired(&node("", None), &addresses(given)),
        Ok(Some(addresses(expected)))
    );
}

proptest! {
    #[test]
    fn every_address_comes_from_the_instance_or_the_kubelet(
        node in any_node(),
        instance in any_instance(),
    ) {
        if let Ok(Some(list)) = desired(&node, &instance.addresses) {
            for address in &list {
                let kubelets = &*address.kind == "Hostname" && node.addresses.contains(address);
                prop_assert!(kubelets || instance.addresses.contains(address));
            }
        }
    }

    #[test]
    fn any_annotation_is_an_answer_or_an_error(value in "\\PC*|[0-9a-f:.,]{0,24}") {
        let node = node("Hostname=n6", Some(&value));
        let _ = desired(&node, &addresses("InternalIP=10.0.0.5"));
    }

    #[test]
    fn ips_read_what_they_print(ip in any::<std::net::IpAddr>()) {
        prop_assert_eq!(parse_ip(&ip.to_string()), Some(ip.to_canonical()));
    }
}

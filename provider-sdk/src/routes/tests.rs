use std::net::IpAddr;

use super::*;
use crate::Address;

#[test]
fn a_cidr_has_one_network_in_each_spelling() {
    let network_of = |cidr: &str| network(cidr).map(|(ip, length)| format!("{ip}/{length}"));
    for (cidr, network) in [
        ("10.1.2.0/24", Some("10.1.2.0/24")),
        ("10.1.2.3/24", Some("10.1.2.0/24")),
        ("10.1.2.3/32", Some("10.1.2.3/32")),
        ("10.1.2.3/0", Some("0.0.0.0/0")),
        ("2001:DB8:0:0::7/64", Some("2001:db8::/64")),
        ("2001:db8::7/128", Some("2001:db8::7/128")),
        ("ff::/0", Some("::/0")),
        ("10.1.2.0/33", None),
        ("2001:db8::/129", None),
        ("10.1.2.0", None),
        ("10.1.2.0/", None),
        ("pods/24", None),
        ("", None),
    ] {
        assert_eq!(network_of(cidr).as_deref(), network, "{cidr:?}");
    }
}

/// A delete gets a route as a list returned it.
#[test]
fn a_listed_route_comes_back_unchanged() {
    let route = Route::new("10.1.2.0/24")
        .with_name("r-1")
        .with_node_name("n-1")
        .with_provider_id("test://i-1")
        .with_node_addresses([Address::InternalIp(IpAddr::from([10, 0, 0, 1]))])
        .with_next_hop_ip(IpAddr::from([10, 0, 0, 1]))
        .with_blackhole(true)
        .with_compare_node_addresses(true)
        .with_node_uid("u-1");
    assert_eq!(Route::from_wire(route.clone().into_wire()), route);
    let nowhere = Route::new("10.1.2.0/24");
    let wire = nowhere.clone().into_wire();
    assert_eq!(wire.next_hop_ip, "");
    assert_eq!(Route::from_wire(wire), nowhere);
}

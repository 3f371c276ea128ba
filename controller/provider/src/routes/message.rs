//! Routes as the contract spells them.

use outrigger_api::v1;
use outrigger_core::{
    node::NodeAddress,
    route::{ObservedRoute, RawRoute, WantedRoute},
};

/// A route to be made.
pub(super) fn wanted(route: &WantedRoute) -> v1::Route {
    v1::Route {
        destination_cidr: route.destination.to_string(),
        node_name: route.node_name.to_string(),
        provider_id: route.provider_id.to_string(),
        node_addresses: addresses(&route.node_addresses),
        node_uid: route.node_uid.to_string(),
        ..v1::Route::default()
    }
}

/// A route exactly as the provider named it.
pub(super) fn observed(route: &ObservedRoute) -> v1::Route {
    let raw = route.raw();
    v1::Route {
        name: raw.name.clone(),
        destination_cidr: raw.destination_cidr.clone(),
        node_name: raw.node_name.clone(),
        provider_id: raw.provider_id.clone(),
        node_addresses: addresses(&raw.node_addresses),
        next_hop_ip: raw.next_hop_ip.clone(),
        blackhole: raw.is_blackhole,
        compare_node_addresses: raw.compares_addresses,
        node_uid: String::new(),
    }
}

/// A route as it arrives, unchecked.
pub(super) fn raw(route: v1::Route) -> RawRoute {
    let addresses = route.node_addresses.into_iter();
    RawRoute {
        name: route.name,
        destination_cidr: route.destination_cidr,
        node_name: route.node_name,
        provider_id: route.provider_id,
        node_addresses: addresses
            .map(|address| NodeAddress {
                kind: address.r#type.into(),
                address: address.address.into(),
            })
            .collect(),
        next_hop_ip: route.next_hop_ip,
        is_blackhole: route.blackhole,
        compares_addresses: route.compare_node_addresses,
    }
}

fn addresses(addresses: &[NodeAddress]) -> Vec<v1::NodeAddress> {
    let addresses = addresses.iter().map(|address| v1::NodeAddress {
        r#type: address.kind.to_string(),
        address: address.address.to_string(),
    });
    addresses.collect()
}

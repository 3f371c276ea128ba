use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use outrigger_api::v1;

use crate::setters::setters;
use crate::{Address, Effects};

/// A route from a Pod CIDR to a Node.
///
/// In a list, a target by one of [`node_name`](Self::node_name), [`provider_id`](Self::provider_id) and
/// [`next_hop_ip`](Self::next_hop_ip) is enough: the controller finds its Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// Name in the cloud; empty in a creation, and for ever in a cloud without names.
    pub name: String,
    /// The Pod CIDR: the key. In a creation without host bits, in Kubernetes' spelling.
    pub destination_cidr: String,
    /// Name of the target Node.
    pub node_name: String,
    /// `spec.providerID` of the target.
    pub provider_id: String,
    /// `status.addresses` of the target, at most 64.
    pub node_addresses: Vec<Address>,
    /// The next hop, of a list. Not given in a creation.
    pub next_hop_ip: Option<IpAddr>,
    /// In a list: it leads nowhere, since its target is gone or cannot forward.
    pub blackhole: bool,
    /// In a list: [`node_addresses`](Self::node_addresses) holds the addresses that it was made with,
    /// and the controller makes it again when the Node has others.
    pub compare_node_addresses: bool,
    /// In a creation: UID of the Node, a good base for a name. Both routes of a dual-stack Node have it.
    pub node_uid: String,
}

/// A route that was made or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteChange {
    /// A route that was made, as a list shows it. `None`: the controller keeps it as it asked for it,
    /// and deletes it without a name.
    pub route: Option<Route>,
    /// Events, annotations and conditions of the Node.
    pub effects: Option<Effects>,
}

impl RouteChange {
    /// The route is there, and this is how a list shows it.
    pub fn created(route: impl Into<Option<Route>>) -> Self {
        Self {
            route: route.into(),
            effects: None,
        }
    }

    /// The route is gone.
    pub fn deleted() -> Self {
        Self::default()
    }
}

setters! { RouteChange {
    with_effects => effects: Option<Effects>,
} }

impl Route {
    /// A route to this Pod CIDR.
    pub fn new(destination_cidr: impl Into<String>) -> Self {
        Self {
            destination_cidr: destination_cidr.into(),
            ..Self::default()
        }
    }

    /// Moves the message's fields.
    pub(crate) fn from_wire(wire: v1::Route) -> Self {
        let addresses = wire.node_addresses.into_iter();
        Self {
            name: wire.name,
            destination_cidr: wire.destination_cidr,
            node_name: wire.node_name,
            provider_id: wire.provider_id,
            node_addresses: addresses.map(Address::from_wire).collect(),
            next_hop_ip: wire.next_hop_ip.parse().ok(),
            blackhole: wire.blackhole,
            compare_node_addresses: wire.compare_node_addresses,
            node_uid: wire.node_uid,
        }
    }

    pub(crate) fn into_wire(self) -> v1::Route {
        let addresses = self.node_addresses.into_iter();
        v1::Route {
            name: self.name,
            destination_cidr: self.destination_cidr,
            node_name: self.node_name,
            provider_id: self.provider_id,
            node_addresses: addresses.map(Address::into_wire).collect(),
            next_hop_ip: self
                .next_hop_ip
                .map(|ip| ip.to_string())
                .unwrap_or_default(),
            blackhole: self.blackhole,
            compare_node_addresses: self.compare_node_addresses,
            node_uid: self.node_uid,
        }
    }
}

setters! { Route {
    with_name => name: String,
    with_node_name => node_name: String,
    with_provider_id => provider_id: String,
    with_node_addresses => node_addresses: Vec<Address>,
    with_next_hop_ip => next_hop_ip: Option<IpAddr>,
    with_node_uid => node_uid: String,
} }

setters! { plain Route {
    with_blackhole => blackhole: bool,
    with_compare_node_addresses => compare_node_addresses: bool,
} }

impl RouteChange {
    /// The answer to a creation.
    pub(crate) fn into_created(self) -> v1::CreateRouteResponse {
        v1::CreateRouteResponse {
            found: Some(self.route.map(Route::into_wire).unwrap_or_default()),
            effects: self.effects.map(Effects::into_wire),
        }
    }

    /// The answer to a deletion.
    pub(crate) fn into_deleted(self) -> v1::DeleteRouteResponse {
        v1::DeleteRouteResponse {
            absent: Some(v1::Absent::default()),
            effects: self.effects.map(Effects::into_wire),
        }
    }
}

/// Network address and prefix length of a CIDR in any spelling; `None`: it is none.
pub(crate) fn network(cidr: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = cidr.split_once('/')?;
    let length: u8 = length.parse().ok()?;
    let host_bits = |bits: u32| bits.checked_sub(length.into());
    let network = match address.parse().ok()? {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(host_bits(32)?).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(host_bits(128)?).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    };
    Some((network, length))
}

//! A route in the cloud, and the Node that it leads to.

use std::{collections::HashSet, fmt, net::IpAddr};

use crate::{
    cidr::Cidr,
    fault::{Excerpt, Fault, few, legal},
    node::{NodeAddress, NodeView},
    syntax::Complaint,
};

/// Bytes of a text.
const MAX_TEXT: usize = 1_024;
/// Addresses of one route.
const MAX_ADDRESSES: usize = 64;

/// A route as it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawRoute {
    /// Name in the cloud.
    pub name: String,
    /// In any spelling.
    pub destination_cidr: String,
    /// Name of the target Node, or empty.
    pub node_name: String,
    /// Provider ID of the target, or empty.
    pub provider_id: String,
    /// Addresses of the target when the route was made.
    pub node_addresses: Vec<NodeAddress>,
    /// An address of the target, or empty.
    pub next_hop_ip: String,
    /// Whether it leads nowhere.
    pub is_blackhole: bool,
    /// Whether it is made again when `node_addresses` are not the Node's.
    pub compares_addresses: bool,
}

/// A part of a route, by its name in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteField {
    /// `name`.
    Name,
    /// `destination_cidr`.
    DestinationCidr,
    /// `node_name`.
    NodeName,
    /// `provider_id`.
    ProviderId,
    /// `node_addresses`.
    NodeAddresses,
    /// `next_hop_ip`.
    NextHopIp,
}

impl fmt::Display for RouteField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "route name",
            Self::DestinationCidr => "route destination_cidr",
            Self::NodeName => "route node_name",
            Self::ProviderId => "route provider_id",
            Self::NodeAddresses => "route node_addresses",
            Self::NextHopIp => "route next_hop_ip",
        })
    }
}

/// Why a route is left alone, as if it were not listed.
pub type RouteFault = Fault<RouteField>;

/// A route of the cloud, exactly as the provider named it: a deletion sends it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRoute {
    raw: Box<RawRoute>,
    destination: Cidr,
}

/// A route to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRoute {
    /// The Node's Pod CIDR.
    pub destination: Cidr,
    /// Name of the Node.
    pub node_name: Box<str>,
    /// UID of the Node.
    pub node_uid: Box<str>,
    /// Its provider ID; empty only where the cloud has no such IDs.
    pub provider_id: Box<str>,
    /// Its addresses.
    pub node_addresses: Box<[NodeAddress]>,
}

/// A Node, as far as it is compared with a route.
struct RouteTarget<'a> {
    name: &'a str,
    provider_id: &'a str,
    addresses: &'a [NodeAddress],
    is_initialized: bool,
}

/// How a route and a Node relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It leads to the Node.
    Right,
    /// It leads to the Node, but was made with other addresses.
    Outdated,
    /// It leads to the machine or the next hop that the Node had before.
    Replaced,
    /// It does not lead to the Node.
    Other,
    /// Not known: the Node is not initialised, so that its machine is not known yet, or the two have nothing in
    /// common to compare.
    Undecided,
}

impl RawRoute {
    /// The route, if its destination is a CIDR and each part keeps to its limit.
    pub fn check(self) -> Result<ObservedRoute, RouteFault> {
        let Some(destination) = Cidr::parse(&self.destination_cidr) else {
            return Err(Fault::Illegal {
                field: RouteField::DestinationCidr,
                value: Excerpt::of(&self.destination_cidr),
                complaint: "is no CIDR",
            });
        };
        legal(RouteField::Name, &self.name, short)?;
        legal(RouteField::NodeName, &self.node_name, short)?;
        legal(RouteField::ProviderId, &self.provider_id, short)?;
        legal(RouteField::NextHopIp, &self.next_hop_ip, ip_or_empty)?;
        few(
            RouteField::NodeAddresses,
            self.node_addresses.len(),
            MAX_ADDRESSES,
        )?;
        Ok(ObservedRoute {
            raw: Box::new(self),
            destination,
        })
    }
}

fn short(text: &str) -> Result<(), Complaint> {
    if text.len() > MAX_TEXT {
        return Err("is longer than 1,024 bytes");
    }
    Ok(())
}

fn ip_or_empty(text: &str) -> Result<(), Complaint> {
    if text.is_empty() || ip(text).is_some() {
        return Ok(());
    }
    Err("is no IP address")
}

/// An IPv4 address that is mapped into IPv6 is that IPv4 address.
pub(super) fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

impl ObservedRoute {
    /// The route as the provider named it.
    pub const fn raw(&self) -> &RawRoute {
        &self.raw
    }

    /// Its destination, however the provider spells it.
    pub const fn destination(&self) -> Cidr {
        self.destination
    }

    /// Name of the Node that it leads to, where the provider names it.
    pub(super) fn node_name(&self) -> Option<&str> {
        Some(&*self.raw.node_name).filter(|name| !name.is_empty())
    }

    /// How the route and `node` relate. Of the name, the provider ID and the next hop of the target,
    /// the first that both have decides which Node is meant; the others show whether it is the
    /// same machine still.
    pub(super) fn fit(&self, node: &NodeView) -> Fit {
        self.fit_to(&RouteTarget {
            name: &node.name,
            provider_id: &node.provider_id,
            addresses: &node.addresses,
            // Until then the addresses are those of the kubelet.
            is_initialized: !node.is_uninitialized(),
        })
    }

    fn fit_to(&self, node: &RouteTarget<'_>) -> Fit {
        let raw = &*self.raw;
        let name = self.node_name().map(|name| *name == *node.name);
        let has_ids = !raw.provider_id.is_empty() && !node.provider_id.is_empty();
        let id = has_ids.then(|| *raw.provider_id == *node.provider_id);
        let hop = ip(&raw.next_hop_ip).filter(|_| !node.addresses.is_empty());
        let hop = hop.map(|hop| node.addresses.iter().any(|a| ip(&a.address) == Some(hop)));
        let mut same = [name, id, hop].into_iter().flatten();
        match same.next() {
            Some(false) if node.is_initialized || name.is_some() || id.is_some() => Fit::Other,
            None | Some(false) => Fit::Undecided,
            Some(true) if !node.is_initialized => Fit::Right,
            Some(true) if same.any(|is_same| !is_same) => Fit::Replaced,
            Some(true) if self.is_outdated(node.addresses) => Fit::Outdated,
            Some(true) => Fit::Right,
        }
    }

    /// as sets.
    fn is_outdated(&self, now: &[NodeAddress]) -> bool {
        let made_with: HashSet<_> = self.raw.node_addresses.iter().collect();
        let now: HashSet<_> = now.iter().collect();
        self.raw.compares_addresses && !now.is_empty() && made_with != now
    }
}

impl WantedRoute {
    /// The route to `node`.
    pub(super) fn of(destination: Cidr, node: &NodeView) -> Self {
        Self {
            destination,
            node_name: (*node.name).into(),
            node_uid: node.uid.clone(),
            provider_id: node.provider_id.clone(),
            node_addresses: node.addresses.clone(),
        }
    }

    /// Whether `made`, as the provider shows it, leads to the Node: a plan would delete any other at once.
    pub fn is_shown_by(&self, made: &ObservedRoute) -> bool {
        let node = RouteTarget {
            name: &self.node_name,
            provider_id: &self.provider_id,
            addresses: &self.node_addresses,
            is_initialized: true,
        };
        made.destination == self.destination
            && !made.raw.is_blackhole
            && made.fit_to(&node) == Fit::Right
    }

    /// The route once it is made, where the provider does not show it: as it was sent.
    pub fn as_made(&self) -> ObservedRoute {
        ObservedRoute {
            raw: Box::new(RawRoute {
                destination_cidr: self.destination.to_string(),
                node_name: self.node_name.to_string(),
                provider_id: self.provider_id.to_string(),
                node_addresses: self.node_addresses.to_vec(),
                ..RawRoute::default()
            }),
            destination: self.destination,
        }
    }
}

#[cfg(test)]
mod tests;

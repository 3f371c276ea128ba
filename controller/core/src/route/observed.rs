//! A route in the cloud, checked, and one to be made.
//!
//! The provider client calls [`RawRoute::check`] with each route of a list. A route that breaks a limit is left alone as if
//! it were not listed, and reported. A route that passes is kept exactly as the provider named it: a deletion sends that
//! back.

use std::{net::IpAddr, sync::Arc};

use crate::{
    cidr::Cidr,
    fault::{Fault, few, legal},
    node::{NodeAddress, NodeView},
    syntax::{self, Complaint},
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
    /// True if it leads nowhere.
    pub is_blackhole: bool,
    /// True if the route is created again when `node_addresses` are not the Node's.
    pub compares_addresses: bool,
}

/// A route of the cloud, exactly as the provider named it: a deletion sends it back.
#[derive(Clone, Debug)]
pub struct ObservedRoute {
    raw: Box<RawRoute>,
    destination: Cidr,
    /// The route as it was made, or as it would be when it was last looked at and led to its Node; none before that.
    pub(super) made_for: Option<Arc<WantedRoute>>,
}

/// Routes are equal if the provider shows them alike, whatever is known besides.
impl PartialEq for ObservedRoute {
    fn eq(&self, other: &Self) -> bool {
        self.destination == other.destination && self.raw == other.raw
    }
}

impl Eq for ObservedRoute {}

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

impl RawRoute {
    /// The route, if its destination is a CIDR and each part keeps to its limit.
    ///
    /// # Errors
    /// Why the route is left alone, as if it were not listed.
    pub fn check(self) -> Result<ObservedRoute, Fault> {
        let Some(destination) = Cidr::parse(&self.destination_cidr) else {
            let field = "route destination_cidr";
            return Err(Fault::illegal(field, &self.destination_cidr, "is no CIDR"));
        };
        legal("route name", &self.name, short)?;
        legal("route node_name", &self.node_name, short)?;
        legal("route provider_id", &self.provider_id, short)?;
        legal("route next_hop_ip", &self.next_hop_ip, ip_or_empty)?;
        few(
            "route node_addresses",
            self.node_addresses.len(),
            MAX_ADDRESSES,
        )?;
        Ok(ObservedRoute {
            raw: Box::new(self),
            destination,
            made_for: None,
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
    /// Returns true if it was made, and the provider has not shown it yet.
    pub(super) fn is_unseen(&self) -> bool {
        let made_for = self.made_for.as_ref();
        made_for.is_some_and(|made_for| made_for.as_made() == *self)
    }

    /// Name of the Node that it leads to, where the provider names one that can be: names are in lower case.
    pub(super) fn node_name(&self) -> Option<String> {
        let name = self.raw().node_name.to_ascii_lowercase();
        syntax::node_name(&name).is_ok().then_some(name)
    }

    /// The route as the provider named it.
    pub const fn raw(&self) -> &RawRoute {
        &self.raw
    }

    /// Its destination, however the provider spells it.
    pub const fn destination(&self) -> Cidr {
        self.destination
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
            made_for: None,
        }
    }
}

#[cfg(test)]
mod tests {
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
}

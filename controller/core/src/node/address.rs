//! Which addresses a Node's status gets: from the provider's, the kubelet's host names and the kubelet's `--node-ip`.
//!
//! [`crate::node::plan`] asks for [`desired`]. The provider's list counts in its order; a host name that only the kubelet
//! knows stays; an address that the kubelet asked for comes first of its type, and alone. An instance without addresses
//! changes nothing. The submodules say which addresses count while another client has written the status, or an answer
//! lacks some.

use std::net::IpAddr;

use crate::{
    cidr::sloppy_ipv4,
    error_class::ErrorClass,
    node::{ANNOTATION_PROVIDED_NODE_IP, NodeAddress, NodeView},
};

mod confirmed;
mod doubt;

pub use doubt::{AddressDoubt, BelievedAddresses, EVENT_ADDRESSES_KEPT, unnamed};

/// Address type of a host name.
pub const HOSTNAME: &str = "Hostname";
/// Address type of an IP address inside the cluster's network.
pub const INTERNAL_IP: &str = "InternalIP";
/// Address type of an IP address that the outside can reach.
pub const EXTERNAL_IP: &str = "ExternalIP";
/// Address type of a DNS name that resolves to internal addresses.
pub const INTERNAL_DNS: &str = "InternalDNS";
/// Address type of a DNS name that resolves to external addresses.
pub const EXTERNAL_DNS: &str = "ExternalDNS";

/// Why the annotation with the kubelet's `--node-ip` cannot be honoured. Upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The annotation does not parse.
    #[error("failed to parse node IP {value:?}: {reason}")]
    Parse {
        /// The annotation's value.
        value: Box<str>,
        /// Syntax error.
        reason: String,
    },
    /// The instance has no such address, perhaps not yet.
    #[error("failed to get node address from cloud provider that matches ip: {ip}")]
    NoMatch {
        /// The address that was looked for.
        ip: IpAddr,
    },
}

impl Error {
    /// Decides the requeue of the node.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Parse { .. } => ErrorClass::Invalid,
            Self::NoMatch { .. } => ErrorClass::NotReady,
        }
    }
}

/// The addresses that `node` should have, given those of its instance. `None`: it has none, so that the kubelet's stay
/// (N-41).
pub fn desired(
    node: &NodeView,
    of_instance: &[NodeAddress],
) -> Result<Option<Box<[NodeAddress]>>, Error> {
    if of_instance.is_empty() {
        return Ok(None);
    }
    let mut addresses = of_instance.to_vec();
    if !of_instance.iter().any(|address| &*address.kind == HOSTNAME) {
        // N-42: only the kubelet knows its host name then.
        let existing = node.status_addresses().iter();
        addresses.extend(existing.filter(|a| &*a.kind == HOSTNAME).cloned());
    }
    let addresses = honour_provided(node, addresses)?;
    Ok(Some(without_repeats(addresses)))
}

/// [`desired`], but ignores the kubelet's `--node-ip` if the instance does not have it.
pub fn said(node: &NodeView, of_instance: &[NodeAddress]) -> Option<Box<[NodeAddress]>> {
    let without_provided = |_| Some(without_repeats(of_instance.to_vec()));
    desired(node, of_instance).unwrap_or_else(without_provided)
}

/// Checks that the instance has the addresses of the kubelet's `--node-ip`. The check comes before the taint is removed
/// (N-14), looks at the instance's addresses only, and applies to an instance without addresses too.
pub fn check_provided(node: &NodeView, of_instance: &[NodeAddress]) -> Result<(), Error> {
    honour_provided(node, of_instance.to_vec()).map(drop)
}

/// N-43.
fn honour_provided(node: &NodeView, given: Vec<NodeAddress>) -> Result<Vec<NodeAddress>, Error> {
    let Some(value) = node.annotations.get(ANNOTATION_PROVIDED_NODE_IP) else {
        return Ok(given);
    };
    let ips = parse_provided(value).map_err(|reason| Error::Parse {
        value: value.into(),
        reason,
    })?;
    let mut picked: Vec<NodeAddress> = Vec::with_capacity(given.len());
    for ip in ips {
        let before = picked.len();
        let equal = |address: &&NodeAddress| parse_ip(&address.address) == Some(ip);
        picked.extend(given.iter().filter(equal).cloned());
        if picked.len() == before {
            return Err(Error::NoMatch { ip });
        }
    }
    let matched = picked.len();
    for address in given {
        // One address of a type was asked for: the others of that type must not be seen.
        if !picked.iter().take(matched).any(|p| p.kind == address.kind) {
            picked.push(address);
        }
    }
    Ok(picked)
}

/// The addresses of an annotation's value, in its order: one IP address, or one of each family (N-43).
fn parse_provided(value: &str) -> Result<Vec<IpAddr>, String> {
    let parts = value.split(',');
    let ips: Vec<_> = parts
        .map(|part| parse_ip(part).ok_or_else(|| format!("could not parse {part:?}")))
        .collect::<Result<_, _>>()?;
    match *ips {
        [_] => Ok(ips),
        [first, second] if first.is_ipv4() != second.is_ipv4() => {
            if first.is_unspecified() || second.is_unspecified() {
                return Err("dual-stack node IP cannot include '0.0.0.0' or '::'".to_owned());
            }
            Ok(ips)
        }
        _ => Err("must contain either a single IP or a dual-stack pair of IPs".to_owned()),
    }
}

/// One address by its number: `::ffff:10.0.0.1` is `10.0.0.1`. Octets may have leading zeros and
/// are decimal all the same, as everywhere in Kubernetes (H-2).
fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip = match text.rsplit_once(':') {
        None => sloppy_ipv4(text)?.into(),
        Some((head, tail)) if tail.contains('.') => {
            format!("{head}:{}", sloppy_ipv4(tail)?).parse().ok()?
        }
        Some(_) => text.parse::<IpAddr>().ok()?,
    };
    Some(ip.to_canonical())
}

/// The addresses in an order that is the same for equal sets.
pub fn sorted(addresses: &[NodeAddress]) -> Vec<&NodeAddress> {
    let mut sorted: Vec<_> = addresses.iter().collect();
    sorted.sort_unstable();
    sorted
}

/// Returns true if both have the same addresses, in any order.
pub fn is_same_set(a: &[NodeAddress], b: &[NodeAddress]) -> bool {
    a == b || (a.len() == b.len() && sorted(a) == sorted(b))
}

/// The API server refuses a status that holds one address twice, for ever.
fn without_repeats(addresses: Vec<NodeAddress>) -> Box<[NodeAddress]> {
    let mut kept: Vec<NodeAddress> = Vec::with_capacity(addresses.len());
    for address in addresses {
        if !kept.contains(&address) {
            kept.push(address);
        }
    }
    kept.into_boxed_slice()
}

#[cfg(test)]
mod tests;

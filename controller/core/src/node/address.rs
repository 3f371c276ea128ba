//! Which addresses a node's status gets, of the provider's, the kubelet's host names and the kubelet's
//! `--node-ip`.

use std::net::IpAddr;

use crate::{
    error_class::ErrorClass,
    node::{ANNOTATION_PROVIDED_NODE_IP, NodeAddress, NodeView},
};

mod confirmed;
mod doubt;
mod provided;

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

/// The decision about a node's `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesiredAddresses {
    /// The provider returned none, so the kubelet's stay (N-41).
    Untouched,
    /// They are what they should be.
    Unchanged,
    /// The whole list to write.
    Changed(Box<[NodeAddress]>),
}

/// Why the annotation with the kubelet's `--node-ip` cannot be honoured. Upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The annotation does not parse.
    #[error("failed to parse node IP {value:?}: {reason}")]
    Parse {
        /// The annotation's value.
        value: Box<str>,
        /// Syntax error.
        reason: ParseReason,
    },
    /// The instance has no such address, perhaps not yet.
    #[error("failed to get node address from cloud provider that matches ip: {ip}")]
    NoMatch {
        /// The address that was looked for.
        ip: IpAddr,
    },
}

/// Syntax errors of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseReason {
    /// A part is no IP address.
    #[error("could not parse {0:?}")]
    NotAnIp(Box<str>),
    /// Three or more, or two of one family.
    #[error("must contain either a single IP or a dual-stack pair of IPs")]
    NotAPair,
    /// A pair with an address that stands for "any".
    #[error("dual-stack node IP cannot include '0.0.0.0' or '::'")]
    UnspecifiedInPair,
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

/// The addresses that `node` should have, given those of its instance.
///
/// For nodes that are being initialised and for those that are kept in sync alike.
pub fn desired(node: &NodeView, of_instance: &[NodeAddress]) -> Result<DesiredAddresses, Error> {
    if of_instance.is_empty() {
        return Ok(DesiredAddresses::Untouched);
    }
    let mut addresses = of_instance.to_vec();
    if !of_instance.iter().any(|address| &*address.kind == HOSTNAME) {
        // N-42: only the kubelet knows its host name then.
        let existing = node.status_addresses().iter();
        addresses.extend(existing.filter(|a| &*a.kind == HOSTNAME).cloned());
    }
    let addresses = without_repeats(honour_provided(node, addresses)?);
    // Not Q-1: whole lists in their order, so that two addresses of one type are no change.
    Ok(if *addresses == *node.status_addresses() {
        DesiredAddresses::Unchanged
    } else {
        DesiredAddresses::Changed(addresses)
    })
}

/// The addresses of `node` as the cloud says them; none where it says none, so that those of the kubelet count.
///
/// Like [`desired`], but ignores the kubelet's `--node-ip` if the instance does not have it.
pub fn said(node: &NodeView, of_instance: &[NodeAddress]) -> Option<Box<[NodeAddress]>> {
    match desired(node, of_instance) {
        Ok(DesiredAddresses::Untouched) => None,
        Ok(DesiredAddresses::Unchanged) => Some(node.status_addresses().into()),
        Ok(DesiredAddresses::Changed(addresses)) => Some(addresses),
        Err(_) => Some(without_repeats(of_instance.to_vec())),
    }
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
    let ips = provided::parse(value).map_err(|reason| Error::Parse {
        value: value.into(),
        reason,
    })?;
    let mut picked: Vec<NodeAddress> = Vec::with_capacity(given.len());
    for ip in ips {
        let before = picked.len();
        let equal = |address: &&NodeAddress| provided::parse_ip(&address.address) == Some(ip);
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

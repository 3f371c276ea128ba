//! Validation of a provider's instances: plain strings in, an [`Instance`] out, or an error.
//!
//! A provider is another program, perhaps an old or a broken one. No value of it reaches the API server unless it is legal
//! there. The provider client calls [`RawInstance::check`] with each instance of an answer. A refusal is an error of that
//! one item; never is it read as absence. Addresses are the exception: a faulty one is left out and reported, so that it
//! does not keep a Node from the rest.

use crate::{
    fault::{Excerpt, Fault, few, legal},
    forbidden_addresses::ForbiddenAddresses,
    node::{
        NodeAddress,
        address::{EXTERNAL_DNS, EXTERNAL_IP, HOSTNAME, INTERNAL_DNS, INTERNAL_IP},
        instance::{Instance, PowerState},
        maintenance::PlannedMaintenance,
        ownership::{Prefixes, ProviderIdOwner},
    },
    string_map::StringMap,
    syntax, text,
};

/// Bytes of a provider id.
pub const MAX_PROVIDER_ID: usize = 1_024;
/// Addresses of one instance.
pub const MAX_ADDRESSES: usize = 64;
/// Additional labels of one instance.
pub const MAX_ADDITIONAL_LABELS: usize = 64;

/// Pod CIDRs of one instance that are kept: one more than is legal.
const MAX_POD_CIDRS: usize = 3;
/// Bytes of a Pod CIDR that are kept: more than the longest has.
const MAX_CIDR: usize = 64;

/// An instance as it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawInstance {
    /// See [`Instance::provider_id`].
    pub provider_id: String,
    /// See [`Instance::node_name`].
    pub node_name: String,
    /// See [`Instance::instance_type`].
    pub instance_type: String,
    /// Type and address, in the provider's order.
    pub addresses: Vec<(String, String)>,
    /// See [`Instance::zone`].
    pub zone: String,
    /// See [`Instance::region`].
    pub region: String,
    /// Key and value; of a repeated key the last counts.
    pub additional_labels: Vec<(String, String)>,
    /// See [`Instance::power_state`].
    pub power_state: PowerState,
    /// See [`Instance::pod_cidrs`].
    pub pod_cidrs: Vec<String>,
    /// See [`Instance::planned_maintenance`].
    pub planned_maintenance: Option<PlannedMaintenance>,
}

/// The limits that an answer is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Prefixes of the provider's IDs.
    pub prefixes: &'a Prefixes,
    /// True if the provider ID may be empty: the cloud has none, or the node of the lookup
    /// may have one already (the caller, which has the Node, then decides N-31).
    pub empty_provider_id: bool,
    /// Addresses that no Node has.
    pub forbidden: &'a ForbiddenAddresses,
}

impl RawInstance {
    /// The instance, if every part of it is legal. Only addresses that are faulty, or too many, are left out: they
    /// must not keep a Node from the rest.
    pub fn check(self, rules: Rules<'_>) -> Result<Instance, Fault> {
        provider_id(&self.provider_id, rules)?;
        if !self.node_name.is_empty() {
            legal("node_name", &self.node_name, syntax::node_name)?;
        }
        legal("instance_type", &self.instance_type, syntax::label_value)?;
        legal("zone", &self.zone, syntax::label_value)?;
        legal("region", &self.region, syntax::label_value)?;
        let (addresses, faulty_addresses) = addresses(self.addresses, rules.forbidden);
        Ok(Instance {
            provider_id: self.provider_id.into(),
            node_name: self.node_name.into(),
            instance_type: self.instance_type.into(),
            addresses,
            faulty_addresses,
            zone: self.zone.into(),
            region: self.region.into(),
            additional_labels: additional_labels(self.additional_labels)?,
            power_state: self.power_state,
            pod_cidrs: self
                .pod_cidrs
                .iter()
                .take(MAX_POD_CIDRS)
                .map(|text| cidr(text))
                .collect(),
            planned_maintenance: self.planned_maintenance.map(PlannedMaintenance::checked),
        })
    }
}

/// A wrong Pod CIDR does not spoil the rest: only the node-ipam loop needs it, and checks it.
fn cidr(text: &str) -> Box<str> {
    text::cut(text, MAX_CIDR).into()
}

fn provider_id(id: &str, rules: Rules<'_>) -> Result<(), Fault> {
    if id.is_empty() {
        return if rules.empty_provider_id {
            Ok(())
        } else {
            Err(Fault::new("the provider's provider_id is empty"))
        };
    }
    legal("provider_id", id, |id| {
        if id.len() > MAX_PROVIDER_ID {
            return Err("is longer than 1,024 bytes");
        }
        // Beyond ASCII only what cannot hide: some clouds let users name things with any letter.
        if !id
            .chars()
            .all(|c| c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric()))
        {
            return Err("has spaces or characters that cannot be printed");
        }
        match rules.prefixes.tail(id) {
            Some("") => Err("has nothing after its prefix"),
            Some(_) | None => Ok(()),
        }
    })?;
    if rules.prefixes.owner(id) == ProviderIdOwner::Foreign {
        let (shown, prefixes) = (Excerpt::of(id), rules.prefixes);
        return Err(Fault::new(format!(
            "the provider's provider_id {shown} starts with none of its prefixes: {prefixes}"
        )));
    }
    Ok(())
}

/// The addresses that a Node can have, and why the others are refused.
fn addresses(
    all: Vec<(String, String)>,
    forbidden: &ForbiddenAddresses,
) -> (Box<[NodeAddress]>, Box<[Box<str>]>) {
    let (mut legal, mut faulty) = (Vec::new(), Vec::new());
    if let Err(many) = few("addresses", all.len(), MAX_ADDRESSES) {
        let many = format!("{many}: those after them are left out");
        faulty.push(many.into());
    }
    for (at, (kind, address)) in all.into_iter().take(MAX_ADDRESSES).enumerate() {
        match node_address(at, kind, address, forbidden) {
            Ok(address) => legal.push(address),
            Err(fault) => faulty.push(fault.to_string().into()),
        }
    }
    (legal.into(), faulty.into())
}

fn node_address(
    at: usize,
    kind: String,
    address: String,
    forbidden: &ForbiddenAddresses,
) -> Result<NodeAddress, Fault> {
    legal(
        format_args!("addresses[{at}].type"),
        &kind,
        |kind| match kind {
            INTERNAL_IP | EXTERNAL_IP | HOSTNAME | INTERNAL_DNS | EXTERNAL_DNS => Ok(()),
            _ => Err("is no address type of Kubernetes, such as InternalIP"),
        },
    )?;
    legal(
        format_args!("addresses[{at}].address"),
        &address,
        |address| {
            match (&*kind, address.parse()) {
                // A host name may be an IP address; a kubelet does that with --hostname-override.
                (INTERNAL_IP | EXTERNAL_IP | HOSTNAME, Ok(ip)) => forbidden.check_ip(ip),
                (INTERNAL_IP | EXTERNAL_IP, Err(_)) => Err("is no IP address"),
                _ => syntax::dns_name(address).and_then(|()| forbidden.check_name(address)),
            }
        },
    )?;
    Ok(NodeAddress {
        kind: kind.into(),
        address: address.into(),
    })
}

fn additional_labels(labels: Vec<(String, String)>) -> Result<StringMap, Fault> {
    few("additional_labels", labels.len(), MAX_ADDITIONAL_LABELS)?;
    for (key, value) in &labels {
        legal("additional_labels key", key, syntax::label_key)?;
        let field = format_args!("additional_labels[{}]", Excerpt::of(key));
        legal(field, value, syntax::label_value)?;
    }
    Ok(labels.into_iter().collect())
}

#[cfg(test)]
mod tests;

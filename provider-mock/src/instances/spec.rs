//! The description of an instance, and the rest derived from its name.
//!
//! Everything derived is a pure function of the name, so that a mock that lost its memory makes the
//! same machine again and no Node notices.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cidr::Cidr;

use super::{
    Address, Instance, InstanceId, LabelKey, LabelValue, NodeName, Power, syntax::BadText,
};

/// An instance as an operator describes it: only the name is needed.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InstanceSpec {
    /// Name that its kubelet registers with
    pub name: NodeName,
    /// Its id [default: derived from the name]
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<InstanceId>,
    /// Its type [default: that of the mock's --instance-type]
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<LabelValue>,
    /// Its zone [default: one of the region's, by the name]
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<LabelValue>,
    /// Its region [default: that of the mock's --region]
    #[arg(long)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<LabelValue>,
    /// An address, as 10.0.0.4 or `ExternalIP=192.0.2.4`; may be repeated [default: an `InternalIP` of each family
    /// and the `Hostname`]
    #[arg(long = "address", value_name = "[TYPE=]ADDRESS")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// Labels beside those of the placement, which they override.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<LabelKey, LabelValue>,
    /// A block that its Pods have; may be repeated [default: one of each range of the mock's --pod-cidrs]
    #[arg(long = "pod-cidr", value_name = "CIDR")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_cidrs: Vec<Cidr>,
    /// Its power state
    #[arg(long, default_value_t = Power::Running)]
    #[serde(default)]
    pub power: Power,
}

impl InstanceSpec {
    /// The instance of that name with everything derived.
    pub fn named(name: NodeName) -> Self {
        Self {
            name,
            id: None,
            instance_type: None,
            zone: None,
            region: None,
            addresses: Vec::new(),
            labels: BTreeMap::new(),
            pod_cidrs: Vec::new(),
            power: Power::Running,
        }
    }

    /// Fills what was left open.
    pub fn build(self, placement: &Placement, generation: u32, now: Timestamp) -> Instance {
        let hash = Hash::of(&self.name, generation);
        let region = self.region.unwrap_or_else(|| placement.region.clone());
        let zone = self
            .zone
            .unwrap_or_else(|| placement.zone_in(&region, hash));
        let mut labels = placement.labels.clone();
        labels.extend(self.labels);
        let addresses = if self.addresses.is_empty() {
            derived_addresses(&self.name, &[], hash)
        } else {
            self.addresses
        };
        Instance {
            id: self.id.unwrap_or_else(|| hash.id()),
            generation,
            power: self.power,
            instance_type: self
                .instance_type
                .unwrap_or_else(|| placement.instance_type.clone()),
            zone,
            region,
            addresses,
            labels,
            pod_cidrs: self.pod_cidrs,
            maintenance: None,
            created_at: now,
            name: self.name,
        }
    }
}

/// The default ID of an instance of this name.
pub(super) fn derived_id(name: &NodeName, generation: u32) -> InstanceId {
    Hash::of(name, generation).id()
}

/// The addresses of a synthesised instance: those of its kubelet (`provided`), and a derived one
/// for each other family.
pub(super) fn synthesized_addresses(name: &NodeName, provided: &[IpAddr]) -> Vec<Address> {
    derived_addresses(name, provided, Hash::of(name, 0))
}

fn derived_addresses(name: &NodeName, provided: &[IpAddr], hash: Hash) -> Vec<Address> {
    let mut addresses: Vec<Address> = provided.iter().copied().map(Address::internal).collect();
    if !provided.iter().any(IpAddr::is_ipv4) {
        addresses.push(Address::internal(hash.ipv4().into()));
    }
    if !provided.iter().any(IpAddr::is_ipv6) {
        addresses.push(Address::internal(hash.ipv6().into()));
    }
    addresses.push(Address::hostname(name));
    addresses
}

/// Default place and type of instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    region: LabelValue,
    zones: Vec<LabelValue>,
    /// Machine type.
    pub instance_type: LabelValue,
    /// Labels that every instance gets.
    pub labels: BTreeMap<LabelKey, LabelValue>,
}

impl Placement {
    /// In this region, spread over these zones; none means `<region>a` to `<region>c`.
    pub fn new(
        region: LabelValue,
        zones: Vec<LabelValue>,
        instance_type: LabelValue,
    ) -> Result<Self, BadText> {
        let zones = if zones.is_empty() {
            default_zones(&region)?.to_vec()
        } else {
            zones
        };
        Ok(Self {
            region,
            zones,
            instance_type,
            labels: BTreeMap::new(),
        })
    }

    /// One of the zones by a hash; another region is its own only zone.
    fn zone_in(&self, region: &LabelValue, hash: Hash) -> LabelValue {
        let of_region = (*region == self.region).then_some(&self.zones);
        let index = |zones: &Vec<_>| (hash.0 % zones.len().max(1) as u64) as usize;
        let zone = of_region.and_then(|zones| zones.get(index(zones)));
        zone.unwrap_or(region).clone()
    }
}

fn default_zones(region: &LabelValue) -> Result<[LabelValue; 3], BadText> {
    Ok([
        format!("{region}a").parse()?,
        format!("{region}b").parse()?,
        format!("{region}c").parse()?,
    ])
}

/// 64 well-mixed bits: FNV-1a, then the finaliser of `SplitMix64`. Written out because it must never
/// change: ids of running clusters are made of it.
pub(crate) fn mixed(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The hash of a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hash(pub(super) u64);

impl Hash {
    pub(super) fn of(name: &NodeName, generation: u32) -> Self {
        let bytes = name.as_str().bytes();
        Self(mixed(bytes.chain(generation.to_le_bytes())))
    }

    fn id(self) -> InstanceId {
        InstanceId::derived(self.0)
    }

    /// In 10.0.0.0/8. Two of thousands of names may share one, which Kubernetes does not mind.
    fn ipv4(self) -> Ipv4Addr {
        let [a, b, c, ..] = self.0.to_be_bytes();
        // No last octet that looks like a network or a broadcast address.
        Ipv4Addr::new(10, a, b, c.clamp(1, 254))
    }

    /// In `fd00:6d6f:636b::/48` ("mock").
    fn ipv6(self) -> Ipv6Addr {
        let [_, _, _, _, high, ..] = self.0.to_be_bytes();
        let low = self.0 as u32;
        Ipv6Addr::new(
            0xfd00,
            0x6d6f,
            0x636b,
            u16::from(high),
            0,
            (self.0 >> 48) as u16,
            (low >> 16) as u16,
            low as u16,
        )
    }
}

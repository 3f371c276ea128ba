//! The machines of the fake cloud.

mod address;
mod inventory;
mod lookup;
mod pod_cidrs;
mod spec;
mod syntax;

use std::collections::BTreeMap;
use std::fmt;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::choice;
use crate::cidr::Cidr;

pub use address::{Address, AddressType};
pub use inventory::{Inventory, Refused};
pub use lookup::{Key, LookupRequest, LookupResult};
pub(crate) use lookup::{Rules, is_visible};
pub use pod_cidrs::PodCidrRange;
pub(crate) use spec::mixed;
pub use spec::{InstanceSpec, Placement};
pub use syntax::{BadText, InstanceId, LabelKey, LabelValue, NodeName, ProviderName};

#[cfg(test)]
mod tests;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Instance {
    /// Unique for ever: what follows `<provider_name>://` in the provider ID.
    pub id: InstanceId,
    /// Name that its kubelet registers with; unique among the instances that exist.
    pub name: NodeName,
    /// How many instances of this name were deleted before this one.
    #[serde(default)]
    pub generation: u32,
    /// Its power state.
    pub power: Power,
    /// Machine type.
    #[serde(rename = "type")]
    pub instance_type: LabelValue,
    /// Zone it is in.
    pub zone: LabelValue,
    /// Region of that zone.
    pub region: LabelValue,
    /// In the order in which they are answered.
    pub addresses: Vec<Address>,
    /// Labels of its Node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<LabelKey, LabelValue>,
    /// Blocks that its Pods have, one of each IP family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_cidrs: Vec<Cidr>,
    /// Maintenance that the cloud has announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// When it was made, by the cloud's clock.
    pub created_at: Timestamp,
}

/// Maintenance of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Maintenance {
    /// When it begins, such as 2026-12-01T02:00:00Z [default: not known]
    #[arg(long, value_name = "TIME")]
    pub starts_at: Option<Timestamp>,
    /// When it ends at the latest [default: not known]
    #[arg(long, value_name = "TIME")]
    pub ends_at: Option<Timestamp>,
    /// Its kind [default: not known]
    #[arg(long, value_parser = ["reboot", "replace", "retire", "emergency"])]
    pub kind: Option<String>,
    /// Its id in the cloud
    #[arg(long, default_value = "")]
    pub id: String,
    /// It has begun
    #[arg(long)]
    pub in_progress: bool,
    /// The work
    #[arg(long, default_value = "")]
    pub reason: String,
}

/// The power state of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    /// Being made or started.
    Pending,
    /// Running.
    #[default]
    Running,
    /// Stopped; can be started.
    Shutdown,
    /// Being deleted.
    Terminating,
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&choice::name(self))
    }
}

//! The route table of the fake cloud.

mod table;

use std::net::IpAddr;

use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cidr::Cidr;
use crate::instances::Address;

pub use table::{RouteRefused, RouteTable};

#[cfg(test)]
mod tests;

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Route {
    /// Unique; follows from its tag, its destination and its target.
    pub name: String,
    /// Tag: UID of the cluster, or its name where that has none; absent: the route is of no cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The destination as it was written.
    pub destination: Cidr,
    /// Where it leads.
    pub target: RouteTarget,
    /// It leads nowhere.
    #[serde(default)]
    pub blackhole: bool,
    /// When it was made, by the cloud's clock.
    pub created_at: Timestamp,
}

/// Where a route leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RouteTarget {
    /// Name of the node that it leads to
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Provider ID of the node
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// The address that packets are sent to
    #[arg(long, value_name = "IP")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<IpAddr>,
    /// The node's addresses when the route was made
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
}

impl RouteTarget {
    /// True if both lead to one place: the addresses besides the next hop do not count.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.node == other.node
            && self.provider_id == other.provider_id
            && self.next_hop == other.next_hop
    }

    /// True if nothing that is known of this place differs from another one.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let same = |own: &str, other: &str| own.is_empty() || own == other;
        same(&self.node, &other.node)
            && same(&self.provider_id, &other.provider_id)
            && self.next_hop.is_none_or(|ip| other.next_hop == Some(ip))
    }
}

/// A route of a cluster that is to be made, or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// Its name in the cloud; empty if that is not known, and before it is made.
    pub name: String,
    /// Tag: UID of the cluster, or its name where that has none.
    pub cluster: String,
    /// The Pod CIDR.
    pub destination: Cidr,
    /// Where it shall lead.
    pub target: RouteTarget,
}

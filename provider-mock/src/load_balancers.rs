//! The load balancers of the fake cloud.

mod inventory;
mod options;
mod spec;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::choice;
use crate::duration;

pub use inventory::{LoadBalancerInventory, LoadBalancerRefused};
pub(crate) use options::capability;
pub(crate) use spec::ANNOTATION_PREFIX;
pub use spec::{Family, LoadBalancerSpec};

#[cfg(test)]
mod tests;

/// How the cloud makes load balancers.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LoadBalancerRules {
    /// Pool of addresses; may be repeated. A family without a pool is not served
    #[arg(long = "lb-pool", default_values = POOLS, value_name = "CIDR")]
    pub pools: Vec<IpNet>,
    /// How load balancers are reached unless the annotation of a Service says so: ip, vip, proxy (IP addresses
    /// without and with an ipMode) or hostname
    #[arg(long = "lb-address-mode", default_value_t = AddressMode::Ip, value_name = "MODE")]
    pub address_mode: AddressMode,
    /// Protocols that are served; others are refused with `UNSUPPORTED_PROTOCOL`
    #[arg(
        long = "lb-protocols",
        default_value = "TCP,UDP",
        value_delimiter = ',',
        value_name = "PROTOCOL"
    )]
    pub protocols: Vec<String>,
    /// Refuse Services whose ports have several protocols
    #[arg(long = "lb-without-mixed-protocols")]
    pub without_mixed_protocols: bool,
    /// How long a new load balancer takes until it is ready; until then it is `IN_PROGRESS`
    #[arg(long = "lb-provisioning", default_value = "0s", value_parser = duration::parse, value_name = "DURATION")]
    pub provisioning: Duration,
    /// Report the addresses of a load balancer before it is ready
    #[arg(long = "lb-early-addresses")]
    pub early_addresses: bool,
    /// How long a deletion takes; until then it is `IN_PROGRESS`
    #[arg(long = "lb-deprovisioning", default_value = "0s", value_parser = duration::parse, value_name = "DURATION")]
    pub deprovisioning: Duration,
    /// Most load balancers; more are refused with `QUOTA_EXCEEDED` [default: no limit]
    #[arg(long = "lb-quota", value_name = "N")]
    pub quota: Option<usize>,
    /// Keep load balancers that are to be deleted, unless the annotation of a Service overrides it: `RETAINED`
    #[arg(long = "lb-deletion-protection")]
    pub deletion_protection: bool,
}

/// Reserved for benchmarks and for documentation: no real addresses.
const POOLS: [&str; 2] = ["198.18.0.0/15", "2001:db8:1b::/64"];

impl Default for LoadBalancerRules {
    /// Ready at once, of both families, TCP and UDP, without a quota.
    fn default() -> Self {
        Self {
            pools: POOLS.iter().filter_map(|pool| pool.parse().ok()).collect(),
            address_mode: AddressMode::Ip,
            protocols: vec!["TCP".to_owned(), "UDP".to_owned()],
            without_mixed_protocols: false,
            provisioning: Duration::ZERO,
            early_addresses: false,
            deprovisioning: Duration::ZERO,
            quota: None,
            deletion_protection: false,
        }
    }
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LoadBalancer {
    /// Unique among those that exist; follows from its tags.
    pub id: String,
    /// For people.
    pub name: String,
    /// Tag: UID of the cluster, or its name where that has none.
    pub cluster: String,
    /// Tag: the Service; absent where the tag was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTag>,
    /// How it is reached.
    pub address_mode: AddressMode,
    /// Its addresses; none where it is reached by name.
    pub addresses: Vec<IpAddr>,
    /// The ports it listens on.
    pub ports: Vec<Port>,
    /// Allowed sources; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<String>,
    /// Where nodes are asked whether they have endpoints; 0: they are not.
    pub health_check_node_port: i32,
    /// Portable options other than the cloud's defaults, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Where traffic goes. Load balancers with equal targets share them.
    pub targets: Arc<[Target]>,
    /// A deletion keeps it.
    pub protected: bool,
    /// When it was made, by the cloud's clock.
    pub created_at: Timestamp,
    /// When it serves.
    pub ready_at: Timestamp,
    /// When it is gone; absent: it is not being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_at: Option<Timestamp>,
}

/// The Service that a load balancer is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceTag {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: the key.
    pub uid: String,
}

/// One port; written `TCP/80:30080`, the last part being the port on each node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Port {
    /// The protocol in the spelling of Kubernetes.
    pub protocol: String,
    /// Port of the load balancer.
    pub port: i32,
    /// Port on each node; 0: none.
    pub node_port: i32,
}

/// Where traffic goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Name of the node.
    pub node: Box<str>,
    /// Its first `InternalIP`, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// How a load balancer is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressMode {
    /// By IP addresses, without an `ipMode`.
    Ip,
    /// By IP addresses with `ipMode: VIP`.
    Vip,
    /// By IP addresses with `ipMode: Proxy`.
    Proxy,
    /// By name.
    Hostname,
}

impl fmt::Display for AddressMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&choice::name(self))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.protocol, self.port, self.node_port)
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = || {
            let (protocol, ports) = text.split_once('/')?;
            let (port, node_port) = ports.split_once(':').unwrap_or((ports, "0"));
            let number = |text: &str| text.parse::<u16>().ok().map(i32::from);
            let (port, node_port) = (number(port)?, number(node_port)?);
            (port > 0).then(|| Self {
                protocol: protocol.to_owned(),
                port,
                node_port,
            })
        };
        port().ok_or_else(|| format!("{text:?} is no port; write it as TCP/80:30080"))
    }
}

impl LoadBalancer {
    /// True if it serves at a time.
    pub fn is_ready(&self, now: Timestamp) -> bool {
        self.gone_at.is_none() && now >= self.ready_at
    }

    /// Its DNS name, under which it is reached in [`AddressMode::Hostname`].
    pub fn hostname(&self) -> String {
        format!("{}.lb.mock.example", self.id)
    }
}

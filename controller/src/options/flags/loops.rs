use clap::Args;

use crate::options::values::GoDuration;

#[derive(Args)]
#[command(next_help_heading = "Cloud-node-controller flags")]
pub(in crate::options) struct NodeFlags {
    /// Nodes whose addresses and labels are refreshed at once; 0: as --concurrent-node-syncs.
    #[arg(long, value_name = "int32", default_value = "0")]
    pub(in crate::options) concurrent_node_status_updates: i32,
    /// Nodes that are initialised at once.
    #[arg(long, value_name = "int32", default_value = "32")]
    pub(in crate::options) concurrent_node_syncs: i32,
}

#[derive(Args)]
#[command(next_help_heading = "Cloud-node-lifecycle-controller flags")]
pub(in crate::options) struct LifecycleFlags {
    /// Nodes whose instance is checked at once.
    #[arg(long, value_name = "int32", default_value = "32")]
    pub(in crate::options) concurrent_node_lifecycle_syncs: i32,
    /// Nodes that are not ready are checked in this period.
    #[arg(long, value_name = "duration", default_value = "5s")]
    pub(in crate::options) node_monitor_period: GoDuration,
}

#[derive(Args)]
#[command(next_help_heading = "Service-lb-controller flags")]
pub(in crate::options) struct ServiceFlags {
    /// Services that are worked on at once.
    #[arg(long, value_name = "int32", default_value = "32")]
    pub(in crate::options) concurrent_service_syncs: i32,
}

#[derive(Args)]
#[command(next_help_heading = "Node-ipam-controller flags")]
pub(in crate::options) struct IpamFlags {
    /// Mask size of a node's CIDR in a cluster of one IP family; 0: 24 for IPv4, 64 for IPv6.
    #[arg(long, value_name = "int32", default_value = "0")]
    pub(in crate::options) node_cidr_mask_size: i32,
    /// Mask size of a node's IPv4 CIDR in a dual-stack cluster; 0: 24.
    #[arg(long, value_name = "int32", default_value = "0")]
    pub(in crate::options) node_cidr_mask_size_ipv4: i32,
    /// Mask size of a node's IPv6 CIDR in a dual-stack cluster; 0: 64.
    #[arg(long, value_name = "int32", default_value = "0")]
    pub(in crate::options) node_cidr_mask_size_ipv6: i32,
    /// CIDR range for Services in the cluster, which node-ipam-controller leaves free; for
    /// dual-stack two, separated by a comma.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) service_cluster_ip_range: String,
}

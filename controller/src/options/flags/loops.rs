use clap::Args;

use crate::options::values::{GoBool, GoDuration, number};

#[derive(Args)]
#[command(next_help_heading = "Cloud-node-controller flags")]
pub(in crate::options) struct NodeFlags {
    /// Nodes whose addresses and labels are refreshed at once; 0: as --concurrent-node-syncs.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) concurrent_node_status_updates: i32,
    /// Nodes that are initialised at once.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "32")]
    pub(in crate::options) concurrent_node_syncs: i32,
}

#[derive(Args)]
#[command(next_help_heading = "Cloud-node-lifecycle-controller flags")]
pub(in crate::options) struct LifecycleFlags {
    /// Nodes whose instance is checked at once.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "32")]
    pub(in crate::options) concurrent_node_lifecycle_syncs: i32,
    /// Nodes that are not ready are checked in this period.
    #[arg(long, value_name = "duration", default_value = "5s")]
    pub(in crate::options) node_monitor_period: GoDuration,
    /// Nodes that may be absent from the cloud or deleted within --node-deletion-window before
    /// deletion stops, whatever the size of the cluster.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "3")]
    pub(in crate::options) node_deletion_burst: i32,
    /// Answers in a row, --node-monitor-period apart at least, by which the cloud has to say that
    /// an instance does not exist before its Node is deleted.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "2")]
    pub(in crate::options) node_deletion_confirm: i32,
    /// Delete Nodes whose instance does not exist; false: only say so.
    #[arg(long, value_name = "bool", default_value = "true")]
    pub(in crate::options) node_deletion_enabled: GoBool,
    /// Part of this provider's Nodes, 0 to 1, that may be absent from the cloud or deleted within
    /// --node-deletion-window before deletion stops.
    #[arg(long, value_name = "float64", value_parser = number::float64, default_value = "0.1")]
    pub(in crate::options) node_deletion_fraction: f64,
    /// Time in which absent and deleted Nodes are counted, and after which a second look at those
    /// that are held back decides.
    #[arg(long, value_name = "duration", default_value = "5m0s")]
    pub(in crate::options) node_deletion_window: GoDuration,
    /// Labels of the Nodes without a provider ID that are this provider's, in a cluster that has
    /// others too: 'key=value,other in (a,b)'. Empty: all of them, as long as no Node has the
    /// provider ID of another provider.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) node_selector: String,
}

#[derive(Args)]
#[command(next_help_heading = "Service-lb-controller flags")]
pub(in crate::options) struct ServiceFlags {
    /// Services that are worked on at once, beside two in the background.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "32")]
    pub(in crate::options) concurrent_service_syncs: i32,
    /// Each load balancer is compared with the cloud once in this period, and made anew where it
    /// differs; 0: never.
    #[arg(long, value_name = "duration", default_value = "12h0m0s")]
    pub(in crate::options) load_balancer_drift_period: GoDuration,
    /// Nodes that may always leave the targets of the load balancers in one step without being deleted.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "3")]
    pub(in crate::options) load_balancer_shrink_count: i32,
    /// Part of the targets of the load balancers, 0 to 1, that may leave in one step without being
    /// deleted.
    #[arg(long, value_name = "float64", value_parser = number::float64, default_value = "0.5")]
    pub(in crate::options) load_balancer_shrink_fraction: f64,
    /// How long a step is held back that takes more targets than --load-balancer-shrink-count and
    /// --load-balancer-shrink-fraction allow; 0: not at all.
    #[arg(long, value_name = "duration", default_value = "30s")]
    pub(in crate::options) load_balancer_shrink_hold: GoDuration,
    /// The longest that a node that joins waits for others to be given to the load balancers with
    /// it. One that leaves waits 100ms at most.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) load_balancer_update_ceiling: GoDuration,
    /// Nodes that joined are given to the load balancers when for so long no other did.
    #[arg(long, value_name = "duration", default_value = "1s")]
    pub(in crate::options) load_balancer_update_idle: GoDuration,
    /// Print what would change in the cloud for the Services as they are, change nothing, and end.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) plan: GoBool,
    /// How --plan prints it: table or json.
    #[arg(long, value_name = "string", default_value = "table")]
    pub(in crate::options) plan_output: String,
}

#[derive(Args)]
#[command(next_help_heading = "Node-ipam-controller flags")]
pub(in crate::options) struct IpamFlags {
    /// Mask size of a node's CIDR in a cluster of one IP family; 0: 24 for IPv4, 64 for IPv6.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) node_cidr_mask_size: i32,
    /// Mask size of a node's IPv4 CIDR in a dual-stack cluster; 0: 24.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) node_cidr_mask_size_ipv4: i32,
    /// Mask size of a node's IPv6 CIDR in a dual-stack cluster; 0: 64.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) node_cidr_mask_size_ipv6: i32,
    /// CIDR range for Services in the cluster, which node-ipam-controller leaves free; for
    /// dual-stack two, separated by a comma.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) service_cluster_ip_range: String,
}

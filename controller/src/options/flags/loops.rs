use clap::Args;
use outrigger_core::{
    node::brake::DeletionLimits,
    targets::{Allowance, Pace},
};

use crate::options::values::{GoBool, GoDuration, number};

#[derive(Args)]
#[command(next_help_heading = "Cloud-node-controller flags")]
pub(in crate::options) struct NodeFlags {
    /// Number of initialised Nodes updated concurrently; 0: as --concurrent-node-syncs.
    ///
    /// Configz: NodeController.ConcurrentNodeStatusUpdates
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) concurrent_node_status_updates: i32,
    /// Number of Nodes initialised concurrently.
    ///
    /// Better: with upstream's 1, one slow answer of the cloud delays all others
    ///
    /// Configz: NodeController.ConcurrentNodeSyncs
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "32")]
    pub(in crate::options) concurrent_node_syncs: i32,
}

#[derive(Args)]
#[command(next_help_heading = "Cloud-node-lifecycle-controller flags")]
pub(in crate::options) struct LifecycleFlags {
    /// Number of Nodes tainted or deleted concurrently.
    ///
    /// Better: as for --concurrent-node-syncs
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "32")]
    pub(in crate::options) concurrent_node_lifecycle_syncs: i32,
    /// Period in which a Node that is not ready is checked.
    ///
    /// Configz: KubeCloudShared.NodeMonitorPeriod
    #[arg(long, value_name = "duration", default_value_t = DeletionLimits::default().period.into())]
    pub(in crate::options) node_monitor_period: GoDuration,
    /// Number of Nodes that may be absent from the cloud or deleted within --node-deletion-window
    /// before deletion stops, whatever the size of the cluster.
    ///
    /// Ours: a cloud that suddenly knows many instances no more is more likely to be wrong than
    /// right; upstream deletes all of their Nodes
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value_t = DeletionLimits::default().burst.cast_signed())]
    pub(in crate::options) node_deletion_burst: i32,
    /// Number of consecutive answers that an instance does not exist, at least
    /// --node-monitor-period apart, before its Node is deleted.
    ///
    /// Ours: upstream deletes a Node on one answer; 1 does the same
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value_t = DeletionLimits::default().confirm.cast_signed())]
    pub(in crate::options) node_deletion_confirm: i32,
    /// Delete Nodes whose instance does not exist; false: only report them.
    ///
    /// Ours: a cluster may want to keep its Nodes whatever the cloud answers
    #[arg(long, value_name = "bool", default_value_t = GoBool(DeletionLimits::default().enabled))]
    pub(in crate::options) node_deletion_enabled: GoBool,
    /// Fraction of this provider's Nodes, 0 to 1, that may be absent from the cloud or deleted
    /// within --node-deletion-window before deletion stops.
    ///
    /// Ours: as for --node-deletion-burst
    #[arg(long, value_name = "float64", value_parser = number::float64, default_value_t = DeletionLimits::default().fraction)]
    pub(in crate::options) node_deletion_fraction: f64,
    /// Sliding window of the deletion limit, and re-check delay for withheld Nodes.
    ///
    /// Ours: as for --node-deletion-burst
    #[arg(long, value_name = "duration", default_value_t = DeletionLimits::default().window.into())]
    pub(in crate::options) node_deletion_window: GoDuration,
    /// Label selector of this provider's Nodes among those without a provider ID, such as
    /// 'key=value,other in (a,b)'. Empty: all of them, as long as no Node has the provider ID of
    /// another provider.
    ///
    /// Ours: several providers can share a cluster
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) node_selector: String,
}

#[derive(Args)]
#[command(next_help_heading = "Service-lb-controller flags")]
pub(in crate::options) struct ServiceFlags {
    /// Number of Services reconciled concurrently, plus two in the background.
    ///
    /// Better: as for --concurrent-node-syncs
    ///
    /// Configz: ServiceController.ConcurrentServiceSyncs
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "32")]
    pub(in crate::options) concurrent_service_syncs: i32,
    /// Period in which each load balancer is compared with the cloud, and ensured where it differs;
    /// 0: never.
    ///
    /// Ours: upstream never finds changes that others made to a load balancer
    #[arg(long, value_name = "duration", default_value = "12h0m0s")]
    pub(in crate::options) load_balancer_drift_period: GoDuration,
    /// Number of targets that one update may always remove while their Nodes exist.
    ///
    /// Ours: a label or taint on most nodes, or a list that misses them, is more likely a mistake
    /// than true, and an outage if it is believed; upstream believes it
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value_t = Allowance::default().few as i32)]
    pub(in crate::options) load_balancer_shrink_count: i32,
    /// Fraction of the targets, 0 to 1, that one update may remove while their Nodes exist.
    ///
    /// Ours: as for --load-balancer-shrink-count
    #[arg(long, value_name = "float64", value_parser = number::float64, default_value_t = Allowance::default().fraction)]
    pub(in crate::options) load_balancer_shrink_fraction: f64,
    /// Delay of an update that removes more targets than both --load-balancer-shrink-count and
    /// --load-balancer-shrink-fraction allow; 0: none.
    ///
    /// Ours: as for --load-balancer-shrink-count
    #[arg(long, value_name = "duration", default_value_t = Allowance::default().hold.into())]
    pub(in crate::options) load_balancer_shrink_hold: GoDuration,
    /// Maximum delay added by the debounce. A Node that leaves is delayed by 100ms at most.
    ///
    /// Ours: upstream calls the cloud for each load balancer and each node that joins
    #[arg(long, value_name = "duration", default_value_t = Pace::default().ceiling.into())]
    pub(in crate::options) load_balancer_update_ceiling: GoDuration,
    /// Debounce: update targets after this long without another Node joining.
    ///
    /// Ours: as for --load-balancer-update-ceiling
    #[arg(long, value_name = "duration", default_value_t = Pace::default().idle.into())]
    pub(in crate::options) load_balancer_update_idle: GoDuration,
    /// Print the planned changes of load balancers, change nothing, and exit.
    ///
    /// Ours: a change of configuration or version can be looked at before it is made
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) plan: GoBool,
    /// Format of --plan: table or json.
    ///
    /// Ours: as for --plan
    #[arg(long, value_name = "string", default_value = "table")]
    pub(in crate::options) plan_output: String,
}

#[derive(Args)]
#[command(next_help_heading = "Node-ipam-controller flags")]
pub(in crate::options) struct IpamFlags {
    /// Mask size of a Node's CIDR in a single-stack cluster; 0: 24 for IPv4, 64 for IPv6.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) node_cidr_mask_size: i32,
    /// Mask size of a Node's IPv4 CIDR in a dual-stack cluster; 0: 24.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) node_cidr_mask_size_ipv4: i32,
    /// Mask size of a Node's IPv6 CIDR in a dual-stack cluster; 0: 64.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value = "0")]
    pub(in crate::options) node_cidr_mask_size_ipv6: i32,
    /// CIDR of Services, which node-ipam-controller leaves free; two, separated by a comma, for
    /// dual-stack.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) service_cluster_ip_range: String,
}

use clap::Args;

use crate::options::{
    features::FeatureGates,
    flags::{DEFAULT_BURST, DEFAULT_QPS},
    values::{GoBool, GoDuration, Strings, number},
};

#[derive(Args)]
#[command(next_help_heading = "Generic flags")]
pub(in crate::options) struct GenericFlags {
    /// Allocate CIDRs for Pods and set them on nodes. Requires --cluster-cidr.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) allocate_node_cidrs: GoBool,
    /// Run although the provider knows no id of this cluster in the cloud, and change the cloud although
    /// the cluster's UID cannot be read, at the risk that two clusters in one account take each other's
    /// resources for their own.
    #[arg(long, value_name = "bool", default_value = "false", hide = true)]
    pub(in crate::options) allow_untagged_cloud: GoBool,
    /// Type of CIDR allocator to use. Only RangeAllocator exists.
    #[arg(long, value_name = "string", default_value = "RangeAllocator")]
    pub(in crate::options) cidr_allocator_type: String,
    /// No effect: the provider reads its own configuration.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cloud_config: String,
    /// The name that the cloud provider must give; any, if empty.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cloud_provider: String,
    /// CIDR range for Pods in the cluster; for dual-stack two, separated by a comma. Used by
    /// node-route-controller and, with --allocate-node-cidrs, by node-ipam-controller.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cluster_cidr: String,
    /// The name of the cluster; passed to the provider, which marks cloud resources with it.
    #[arg(long, value_name = "string", default_value = "kubernetes")]
    pub(in crate::options) cluster_name: String,
    /// Configure routes to the Pod CIDRs of nodes in the cloud; false: node-route-controller is
    /// skipped.
    #[arg(long, value_name = "bool", default_value = "true")]
    pub(in crate::options) configure_cloud_routes: GoBool,
    /// Interval between the starts of two controllers.
    #[arg(long, value_name = "duration", default_value = "0s")]
    pub(in crate::options) controller_start_interval: GoDuration,
    /// The controllers to run: '*' stands for all, 'foo' enables the controller named 'foo',
    /// '-foo' disables it; the first item that names a controller decides. They are
    /// cloud-node-controller, cloud-node-lifecycle-controller, node-ipam-controller,
    /// node-route-controller and service-lb-controller.
    #[arg(long, value_name = "strings", default_value = "*")]
    pub(in crate::options) controllers: Strings,
    /// No effect: it belongs to kube-controller-manager.
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) external_cloud_volume_plugin: String,
    /// Pairs of name=true or name=false that switch features. Those with an effect here:
    /// AllBeta, ComponentFlagz, ComponentStatusz, RemoteRequestHeaderUID; any other is accepted.
    #[arg(long, value_name = "mapStringBool", default_value = "")]
    pub(in crate::options) feature_gates: FeatureGates,
    /// Requests to the API server that each client may send at once; 0: the default.
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value_t = DEFAULT_BURST.cast_signed())]
    pub(in crate::options) kube_api_burst: i32,
    /// No effect: requests to the API server are JSON.
    #[arg(long, value_name = "string", default_value = "application/json")]
    pub(in crate::options) kube_api_content_type: String,
    /// Requests to the API server that each client may send a second; 0: the default;
    /// negative: no limit.
    #[arg(long, value_name = "float32", value_parser = number::float32, default_value_t = DEFAULT_QPS)]
    pub(in crate::options) kube_api_qps: f32,
    /// Become the leader before acting. Needed when more than one replica runs.
    #[arg(long, value_name = "bool", default_value = "true")]
    pub(in crate::options) leader_elect: GoBool,
    /// A replica that has seen no renewal for so long tries to become the leader.
    #[arg(long, value_name = "duration", default_value = "15s")]
    pub(in crate::options) leader_elect_lease_duration: GoDuration,
    /// A leader that could not renew for so long stops acting. Less than the lease duration.
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) leader_elect_renew_deadline: GoDuration,
    /// The kind of object that is the lock. Only leases exist.
    #[arg(long, value_name = "string", default_value = "leases")]
    pub(in crate::options) leader_elect_resource_lock: String,
    /// The name of the Lease.
    #[arg(
        long,
        value_name = "string",
        default_value = "cloud-controller-manager"
    )]
    pub(in crate::options) leader_elect_resource_name: String,
    /// The namespace of the Lease.
    #[arg(long, value_name = "string", default_value = "kube-system")]
    pub(in crate::options) leader_elect_resource_namespace: String,
    /// Wait between two tries to acquire or renew leadership.
    #[arg(long, value_name = "duration", default_value = "2s")]
    pub(in crate::options) leader_elect_retry_period: GoDuration,
    /// All objects are looked at again in a random period between this and twice this.
    #[arg(long, value_name = "duration", default_value = "12h0m0s")]
    pub(in crate::options) min_resync_period: GoDuration,
    /// No effect.
    #[arg(long, value_name = "duration", default_value = "0s", hide = true)]
    pub(in crate::options) node_sync_period: GoDuration,
    /// The cloud's routes are listed again in this period, to find changes that others made;
    /// changes in the cluster are acted on at once.
    #[arg(long, value_name = "duration", default_value = "30m0s")]
    pub(in crate::options) route_reconciliation_period: GoDuration,
    /// How long calls to the provider that are in flight may take to end once this process is told to
    /// end, before they are cancelled.
    #[arg(long, value_name = "duration", default_value = "25s")]
    pub(in crate::options) shutdown_grace_period: GoDuration,
    /// Use a service account for each controller.
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) use_service_account_credentials: GoBool,
}

use clap::Args;

use crate::options::{
    features::FeatureGates,
    flags::{DEFAULT_BURST, DEFAULT_QPS},
    values::{GoBool, GoDuration, Strings, number},
};

#[derive(Args)]
#[command(next_help_heading = "Generic flags")]
pub(in crate::options) struct GenericFlags {
    /// Allocate Pod CIDRs and set them on Nodes; requires --cluster-cidr.
    ///
    /// Configz: KubeCloudShared.AllocateNodeCIDRs
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) allocate_node_cidrs: GoBool,
    /// Run although the provider has no cluster ID, and change the cloud although the cluster's UID
    /// cannot be read. Two clusters in one account may then change each other's
    /// resources.
    ///
    /// Deprecated: This flag is deprecated and will be removed in a future release. A cluster-id
    /// will be required on cloud instances.
    ///
    /// Configz: KubeCloudShared.AllowUntaggedCloud
    #[arg(long, value_name = "bool", default_value = "false", hide = true)]
    pub(in crate::options) allow_untagged_cloud: GoBool,
    /// Type of the CIDR allocator: RangeAllocator takes Pod CIDRs from --cluster-cidr,
    /// CloudAllocator asks the provider for them.
    ///
    /// Configz: KubeCloudShared.CIDRAllocatorType
    #[arg(long, value_name = "string", default_value = "RangeAllocator")]
    pub(in crate::options) cidr_allocator_type: String,
    /// No effect: the provider is another process, which reads its own configuration; pass the file
    /// to the provider
    ///
    /// Configz: KubeCloudShared.CloudProvider.CloudConfigFile
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cloud_config: String,
    /// Name that the provider must report; empty: any.
    ///
    /// Better: optional, since the provider is chosen by its socket; if it is set, a provider of
    /// another name is refused
    ///
    /// Configz: KubeCloudShared.CloudProvider.Name
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cloud_provider: String,
    /// CIDR of the Pods; two, separated by a comma, for dual-stack. Used by node-route-controller
    /// and, with --allocate-node-cidrs, by node-ipam-controller.
    ///
    /// Configz: KubeCloudShared.ClusterCIDR
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) cluster_cidr: String,
    /// Name of the cluster, passed to the provider, which marks cloud resources with it.
    ///
    /// Configz: KubeCloudShared.ClusterName
    #[arg(long, value_name = "string", default_value = "kubernetes")]
    pub(in crate::options) cluster_name: String,
    /// Configure routes to the Nodes' Pod CIDRs in the cloud; false: do not start
    /// node-route-controller.
    ///
    /// Configz: KubeCloudShared.ConfigureCloudRoutes
    #[arg(long, value_name = "bool", default_value = "true")]
    pub(in crate::options) configure_cloud_routes: GoBool,
    /// Interval between the starts of two controllers.
    ///
    /// Configz: Generic.ControllerStartInterval
    #[arg(long, value_name = "duration", default_value = "0s")]
    pub(in crate::options) controller_start_interval: GoDuration,
    /// Controllers to run: '*' for all, 'foo' to enable one, '-foo' to disable it; the first item
    /// that names a controller decides. Known are cloud-node-controller,
    /// cloud-node-lifecycle-controller, node-ipam-controller, node-route-controller,
    /// service-lb-controller, and, only if named, persistentvolume-labels-controller.
    ///
    /// Configz: Generic.Controllers
    #[arg(long, value_name = "strings", default_value = "*")]
    pub(in crate::options) controllers: Strings,
    /// No effect: it is a flag of kube-controller-manager; upstream's cloud-controller-manager
    /// ignores it too
    #[arg(long, value_name = "string", default_value = "")]
    pub(in crate::options) external_cloud_volume_plugin: String,
    /// Feature gates as Name=true or Name=false, separated by commas. AllBeta, CloudControllerManagerWebhook, ComponentFlagz,
    /// ComponentStatusz and RemoteRequestHeaderUID have an effect; any other is accepted.
    #[arg(long, value_name = "mapStringBool", default_value = "")]
    pub(in crate::options) feature_gates: FeatureGates,
    /// Burst of requests to the API server, for each client; 0: the default.
    ///
    /// Better: with upstream's 30, clusters of thousands of nodes wait for the client
    ///
    /// Configz: Generic.ClientConnection.burst
    #[arg(long, value_name = "int32", value_parser = number::int32, default_value_t = DEFAULT_BURST.cast_signed())]
    pub(in crate::options) kube_api_burst: i32,
    /// No effect: requests to the API server are JSON
    ///
    /// Configz: Generic.ClientConnection.contentType
    #[arg(long, value_name = "string", default_value = "application/json")]
    pub(in crate::options) kube_api_content_type: String,
    /// Requests per second to the API server, for each client; 0: the default; negative: no limit.
    ///
    /// Better: with upstream's 20, clusters of thousands of nodes wait for the client
    ///
    /// Configz: Generic.ClientConnection.qps
    #[arg(long, value_name = "float32", value_parser = number::float32, default_value_t = DEFAULT_QPS)]
    pub(in crate::options) kube_api_qps: f32,
    /// Acquire the Lease before controllers run. Required with more than one replica.
    ///
    /// Configz: Generic.LeaderElection.leaderElect
    #[arg(long, value_name = "bool", default_value = "true")]
    pub(in crate::options) leader_elect: GoBool,
    /// Time without an observed renewal after which another replica tries to acquire the Lease.
    ///
    /// Configz: Generic.LeaderElection.leaseDuration
    #[arg(long, value_name = "duration", default_value = "15s")]
    pub(in crate::options) leader_elect_lease_duration: GoDuration,
    /// Time without a successful renewal after which the leader stops; less than
    /// --leader-elect-lease-duration.
    ///
    /// Configz: Generic.LeaderElection.renewDeadline
    #[arg(long, value_name = "duration", default_value = "10s")]
    pub(in crate::options) leader_elect_renew_deadline: GoDuration,
    /// Kind of the lock object; only leases exist.
    ///
    /// Configz: Generic.LeaderElection.resourceLock
    #[arg(long, value_name = "string", default_value = "leases")]
    pub(in crate::options) leader_elect_resource_lock: String,
    /// Name of the Lease.
    ///
    /// Configz: Generic.LeaderElection.resourceName
    #[arg(
        long,
        value_name = "string",
        default_value = "cloud-controller-manager"
    )]
    pub(in crate::options) leader_elect_resource_name: String,
    /// Namespace of the Lease.
    ///
    /// Configz: Generic.LeaderElection.resourceNamespace
    #[arg(long, value_name = "string", default_value = "kube-system")]
    pub(in crate::options) leader_elect_resource_namespace: String,
    /// Wait between two attempts to acquire or renew the Lease.
    ///
    /// Configz: Generic.LeaderElection.retryPeriod
    #[arg(long, value_name = "duration", default_value = "2s")]
    pub(in crate::options) leader_elect_retry_period: GoDuration,
    /// Minimum resync period: stores hand all objects to their event handlers again after a random
    /// time between this and twice this.
    ///
    /// Configz: Generic.MinResyncPeriod
    #[arg(long, value_name = "duration", default_value = "12h0m0s")]
    pub(in crate::options) min_resync_period: GoDuration,
    /// No effect: upstream's has none either
    ///
    /// Deprecated: This flag is currently no-op and will be deleted.
    ///
    /// Configz: KubeCloudShared.NodeSyncPeriod
    #[arg(long, value_name = "duration", default_value = "0s", hide = true)]
    pub(in crate::options) node_sync_period: GoDuration,
    /// Period in which the cloud's routes are listed, to find changes made by others. Changes in
    /// the cluster are acted on at once.
    ///
    /// Better: changes in the cluster are acted on at once, so that the period only finds what
    /// others changed in the cloud; upstream lists all routes every 10s
    ///
    /// Configz: KubeCloudShared.RouteReconciliationPeriod
    #[arg(long, value_name = "duration", default_value = "30m0s")]
    pub(in crate::options) route_reconciliation_period: GoDuration,
    /// Time after SIGTERM until calls to the provider in flight are cancelled.
    ///
    /// Ours: a call that is cut off leaves the cloud half changed; with 4s more for the results it
    /// must fit into the Pod's terminationGracePeriodSeconds. Upstream ends at once
    #[arg(long, value_name = "duration", default_value = "25s")]
    pub(in crate::options) shutdown_grace_period: GoDuration,
    /// Use a separate service account for each controller.
    ///
    /// Configz: KubeCloudShared.UseServiceAccountCredentials
    #[arg(long, value_name = "bool", default_value = "false")]
    pub(in crate::options) use_service_account_credentials: GoBool,
}

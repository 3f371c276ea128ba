//! The table of flags: names, types, defaults and help texts, in upstream's groups and order.
//!
//! The name of a field is that of the flag, with underscores for hyphens. Defaults are written as on a command
//! line. The braces hold what else a [`Flag`] has. A flag without effect has no help text but the reason, and
//! no reader.

// The comments are the texts of --help here.
#![allow(clippy::doc_markdown)]

use std::net::IpAddr;

use outrigger_core::go_duration::GoDuration;
use outrigger_provider_client::Endpoint;
use outrigger_runtime::telemetry::ModuleVerbosity;

use super::{
    command_line::CommandLine,
    features::FeatureGates,
    flag::{
        Flag,
        Parity::{Better, NoEffect, Ours},
        Setting, flags,
    },
    flag_type::{NamedCertKeys, Quantity, Version},
};

flags! {
    "Provider" {
        /// Prefixes of annotations and condition types that may be written to Nodes and Services for the
        /// provider, such as vendor.example/; those that it does not declare itself are not written either.
        /// Domains of Kubernetes and of this controller cannot be granted.
        provider_effect_prefixes: Vec<String> = "" {
            parity: Ours("annotations of other programs, such as those of DNS and of the Pod network, \
                direct traffic, and a provider is not trusted with them; upstream's provider writes \
                whatever its account may"),
        };
        /// Numbers of the users that the process behind --provider-endpoint may be one of; empty: any. A
        /// connection to a process of another user is given up before anything is sent.
        provider_user: Vec<String> = "" {
            parity: Ours("whoever answers at the socket is asked what the cloud is, and the kernel knows \
                which user that is"),
        };
        /// Address of the cloud provider's Unix socket, unix:///PATH. CLOUDPROVIDER_ENDPOINT in the
        /// environment sets it for the controller and the provider.
        provider_endpoint: Endpoint = "unix:///run/outrigger/provider.sock" {
            parity: Ours("the provider is reached over a socket"),
        };
    }
    "Debugging" {
        /// Memory in MiB for the last decisions about each Node and Service, which the command explain shows; 0:
        /// none are remembered.
        history_memory: i32 = "4" {
            parity: Ours("why an object is as it is can be asked, and not only looked for in logs"),
        };
        #[expect(dead_code)]
        contention_profiling: bool = "false" {
            parity: NoEffect("it is about goroutines, which do not exist here"),
            configz: "Generic.Debugging.enableContentionProfiling",
        };
        /// Serve dumps of queues and of the provider's state, and -v, under /debug/. Profiles are not
        /// available.
        profiling: bool = "true" { configz: "Generic.Debugging.enableProfiling" };
    }
    "Leader-migration" {
        #[expect(dead_code)]
        enable_leader_migration: bool = "false" {
            parity: NoEffect("kube-controller-manager, the other side of a migration, has had no loops of a cloud since 1.31"),
            configz: "Generic.LeaderMigrationEnabled",
        };
        #[expect(dead_code)]
        leader_migration_config: String = "" {
            parity: NoEffect("kube-controller-manager, the other side of a migration, has had no loops of a cloud since 1.31"),
        };
    }
    "Generic" {
        /// Allocate Pod CIDRs and set them on Nodes, if --controllers names node-ipam-controller; requires --cluster-cidr.
        allocate_node_cidrs: bool = "false" {
            parity: Better("two programs must not allocate: vendors pass the flag to a program of theirs that does, or to one \
                that does not"),
            configz: "KubeCloudShared.AllocateNodeCIDRs",
        };
        /// Run although the provider has no cluster ID, and change the cloud although the cluster's UID
        /// is not known. Two clusters in one account may then change each other's resources.
        allow_untagged_cloud: bool = "false" {
            deprecated: Some("This flag is deprecated and will be removed in a future release. A cluster-id \
                will be required on cloud instances."),
            configz: "KubeCloudShared.AllowUntaggedCloud",
        };
        /// Type of the CIDR allocator: RangeAllocator takes Pod CIDRs from --cluster-cidr, CloudAllocator
        /// asks the provider for them.
        cidr_allocator_type: String = "RangeAllocator" { configz: "KubeCloudShared.CIDRAllocatorType" };
        #[expect(dead_code)]
        cloud_config: String = "" {
            parity: NoEffect("the provider is another process, which reads its own configuration; pass the \
                file to the provider"),
            configz: "KubeCloudShared.CloudProvider.CloudConfigFile",
        };
        /// Name that the provider must report; empty: any.
        cloud_provider: String = "" {
            parity: Better("optional, since the provider is chosen by its socket; if it is set, a provider \
                of another name is refused"),
            configz: "KubeCloudShared.CloudProvider.Name",
        };
        /// CIDR of the Pods; two, separated by a comma, for dual-stack. Used by node-route-controller and,
        /// with --allocate-node-cidrs, by node-ipam-controller, if that runs.
        cluster_cidr: String = "" { configz: "KubeCloudShared.ClusterCIDR" };
        /// Name of the cluster, passed to the provider, which marks cloud resources with it.
        cluster_name: String = "kubernetes" { configz: "KubeCloudShared.ClusterName" };
        /// UUID by which the provider knows what it makes for this cluster; empty: the UID of the namespace
        /// kube-system. For a controller outside the cluster that it serves: the administrator of that one
        /// chooses no other cluster's. To be kept as long as the cluster lives.
        cluster_uid: String = "" {
            parity: Ours("providers mark resources with it, and the administrator of a hosted cluster is a \
                neighbour of the others in the account"),
        };
        /// Configure routes to the Nodes' Pod CIDRs in the cloud; false: do not start node-route-controller.
        configure_cloud_routes: bool = "true" { configz: "KubeCloudShared.ConfigureCloudRoutes" };
        /// Interval between the starts of two controllers.
        controller_start_interval: GoDuration = "0s" { configz: "Generic.ControllerStartInterval" };
        /// Controllers to run: '*' for all, 'foo' to enable one, '-foo' to disable it; the first item that
        /// names a controller decides. Known are cloud-node-controller, cloud-node-lifecycle-controller,
        /// node-route-controller, service-lb-controller, and, only if named, node-ipam-controller,
        /// kubelet-serving-approving-controller and persistentvolume-labels-controller.
        controllers: Vec<String> = "*" { configz: "Generic.Controllers" };
        #[expect(dead_code)]
        external_cloud_volume_plugin: String = "" {
            parity: NoEffect("it is a flag of kube-controller-manager; upstream's cloud-controller-manager \
                ignores it too"),
        };
        /// Feature gates as Name=true or Name=false, separated by commas. AllBeta,
        /// CloudControllerManagerWebhook, ComponentFlagz and ComponentStatusz have an effect; any other is
        /// accepted.
        feature_gates: FeatureGates = "";
        /// Burst of requests to the API server, for each client; 0: the default.
        kube_api_burst: i32 = "2000" {
            parity: Better("with upstream's 30, clusters of thousands of nodes wait for the client"),
            configz: "Generic.ClientConnection.burst",
        };
        #[expect(dead_code)]
        kube_api_content_type: String = "application/json" {
            parity: NoEffect("requests to the API server are JSON"),
            configz: "Generic.ClientConnection.contentType",
        };
        /// Requests per second to the API server, for each client; 0: the default; negative: no limit.
        kube_api_qps: f32 = "1000" {
            parity: Better("with upstream's 20, clusters of thousands of nodes wait for the client"),
            configz: "Generic.ClientConnection.qps",
        };
        /// Acquire the Lease before controllers run. Required with more than one replica.
        leader_elect: bool = "true" { configz: "Generic.LeaderElection.leaderElect" };
        /// File with the identities of this container's processes, on a volume that only this Pod has, such as an
        /// emptyDir: a process takes the Lease of the one before it without waiting, since the kernel's lock on
        /// the file proves that it is dead. Empty: it waits until the Lease expires.
        leader_elect_identity_file: String = "" {
            parity: Ours("after a crash the loops go on within seconds"),
        };
        /// Time without an observed renewal after which another replica tries to acquire the Lease.
        leader_elect_lease_duration: GoDuration = "15s" { configz: "Generic.LeaderElection.leaseDuration" };
        /// Time without a successful renewal after which the leader stops; less than
        /// --leader-elect-lease-duration.
        leader_elect_renew_deadline: GoDuration = "10s" { configz: "Generic.LeaderElection.renewDeadline" };
        /// Kind of the lock object; only leases exist.
        leader_elect_resource_lock: String = "leases" { configz: "Generic.LeaderElection.resourceLock" };
        /// Name of the Lease.
        leader_elect_resource_name: String = "cloud-controller-manager" {
            configz: "Generic.LeaderElection.resourceName",
        };
        /// Namespace of the Lease.
        leader_elect_resource_namespace: String = "kube-system" {
            configz: "Generic.LeaderElection.resourceNamespace",
        };
        /// Wait between two attempts to acquire or renew the Lease.
        leader_elect_retry_period: GoDuration = "2s" { configz: "Generic.LeaderElection.retryPeriod" };
        /// Minimum resync period: stores hand all objects to their event handlers again after a random time
        /// between this and twice this.
        min_resync_period: GoDuration = "12h0m0s" { configz: "Generic.MinResyncPeriod" };
        #[expect(dead_code)]
        node_sync_period: GoDuration = "0s" {
            parity: NoEffect("upstream's has none either"),
            deprecated: Some("This flag is currently no-op and will be deleted."),
            configz: "KubeCloudShared.NodeSyncPeriod",
        };
        /// Period in which the cloud's routes are listed, to find changes made by others. Changes in the
        /// cluster are acted on at once.
        route_reconciliation_period: GoDuration = "30m0s" {
            parity: Better("changes in the cluster are acted on at once, so that the period only finds what \
                others changed in the cloud; upstream lists all routes every 10s"),
            configz: "KubeCloudShared.RouteReconciliationPeriod",
        };
        /// Time after SIGTERM until calls to the provider in flight are cancelled.
        shutdown_grace_period: GoDuration = "25s" {
            parity: Ours("a call that is cut off leaves the cloud half changed; with 4s more for the \
                results it must fit into the Pod's terminationGracePeriodSeconds. Upstream ends at once"),
        };
        /// Use a separate service account for each controller.
        use_service_account_credentials: bool = "false" {
            configz: "KubeCloudShared.UseServiceAccountCredentials",
        };
    }
    "Cloud-node-controller" {
        /// Number of initialised Nodes updated concurrently; 0: as --concurrent-node-syncs.
        concurrent_node_status_updates: i32 = "0" { configz: "NodeController.ConcurrentNodeStatusUpdates" };
        /// Number of Nodes initialised concurrently.
        concurrent_node_syncs: i32 = "32" {
            parity: Better("with upstream's 1, one slow answer of the cloud delays all others"),
            configz: "NodeController.ConcurrentNodeSyncs",
        };
        /// Give a Node the condition MaintenancePlanned (KEP-5683, alpha) while the cloud announces maintenance of
        /// its machine.
        maintenance_condition: bool = "false" {
            parity: Ours("upstream's providers have no way to say it; off while the type of condition is alpha")
        };
        /// Time before announced maintenance at which the Node gets the taint
        /// outrigger.dev/maintenance-planned:PreferNoSchedule; 0: never.
        maintenance_taint_before: GoDuration = "0s" { parity: Ours("as for --maintenance-condition") };
    }
    "Cloud-node-lifecycle-controller" {
        /// Number of Nodes tainted or deleted concurrently.
        concurrent_node_lifecycle_syncs: i32 = "32" { parity: Better("as for --concurrent-node-syncs") };
        /// Period in which a Node that is not ready is checked.
        node_monitor_period: GoDuration = "5s" { configz: "KubeCloudShared.NodeMonitorPeriod" };
        /// Number of Nodes that may be absent from the cloud or deleted within --node-deletion-window before
        /// deletion stops, whatever the size of the cluster.
        node_deletion_burst: i32 = "3" {
            parity: Ours("a cloud that suddenly knows many instances no more is more likely to be wrong \
                than right; upstream deletes all of their Nodes"),
        };
        /// Number of consecutive answers that an instance does not exist, at least --node-monitor-period
        /// apart, before its Node is deleted.
        node_deletion_confirm: i32 = "2" {
            parity: Ours("upstream deletes a Node on one answer; 1 does the same"),
        };
        /// Delete Nodes whose instance does not exist; false: only report them.
        node_deletion_enabled: bool = "true" {
            parity: Ours("a cluster may want to keep its Nodes whatever the cloud answers"),
        };
        /// Fraction of this provider's Nodes, 0 to 1, that may be absent from the cloud or deleted within
        /// --node-deletion-window before deletion stops.
        node_deletion_fraction: f64 = "0.1" { parity: Ours("as for --node-deletion-burst") };
        /// Sliding window of the deletion limit, and re-check delay for withheld Nodes.
        node_deletion_window: GoDuration = "5m0s" { parity: Ours("as for --node-deletion-burst") };
        /// Label selector of this provider's Nodes among those without a provider ID, such as
        /// 'key=value,other in (a,b)'. Empty: all of them, as long as no Node has the provider ID of another
        /// provider.
        node_selector: String = "" { parity: Ours("several providers can share a cluster") };
        /// Time for which the instance of a Node has to be stopped, while the kubelet is silent, until the Node gets the
        /// taint node.kubernetes.io/out-of-service, by which its Pods and volumes move to other Nodes; 0: never. The
        /// label outrigger.dev.node-restriction.kubernetes.io/out-of-service-after says otherwise for one Node.
        out_of_service_after: GoDuration = "0s" {
            parity: Ours("with upstream, the Pods of a StatefulSet wait until an operator adds the taint by hand")
        };
    }
    "Service-lb-controller" {
        /// Number of Services reconciled concurrently.
        concurrent_service_syncs: i32 = "32" {
            parity: Better("as for --concurrent-node-syncs"),
            configz: "ServiceController.ConcurrentServiceSyncs",
        };
        /// Period in which each load balancer is compared with the cloud, and ensured where it differs; 0:
        /// never.
        load_balancer_drift_period: GoDuration = "12h0m0s" {
            parity: Ours("upstream never finds changes that others made to a load balancer"),
        };
        /// Maximum delay added by the debounce. A Node that leaves is delayed by 100ms at most.
        load_balancer_update_ceiling: GoDuration = "10s" {
            parity: Ours("upstream calls the cloud for each load balancer and each node that joins"),
        };
        /// Debounce: update targets after this long without another Node joining.
        load_balancer_update_idle: GoDuration = "1s" {
            parity: Ours("as for --load-balancer-update-ceiling"),
        };
        /// Print the planned changes of load balancers, change nothing, and exit.
        plan: bool = "false" {
            parity: Ours("a change of configuration or version can be looked at before it is made"),
        };
        /// Format of --plan: table or json.
        plan_output: String = "table" { parity: Ours("as for --plan") };
    }
    "Node-ipam-controller" {
        /// Mask size of a Node's CIDR in a single-stack cluster; 0: 24 for IPv4, 64 for IPv6.
        node_cidr_mask_size: i32 = "0";
        /// Mask size of a Node's IPv4 CIDR in a dual-stack cluster; 0: 24.
        node_cidr_mask_size_ipv4: i32 = "0";
        /// Mask size of a Node's IPv6 CIDR in a dual-stack cluster; 0: 64.
        node_cidr_mask_size_ipv6: i32 = "0";
        /// CIDR of Services, which node-ipam-controller leaves free; two, separated by a comma, for
        /// dual-stack.
        service_cluster_ip_range: String = "";
    }
    "Webhook" {
        /// File with CAs; a client of the webhooks needs a certificate that one of them has signed. Empty:
        /// any client is answered.
        webhook_client_ca_file: String = "" { parity: Ours("upstream answers any client") };
        /// Webhooks to serve, in the form of --controllers. Known is persistentvolume-labels.
        webhooks: Vec<String> = "" { configz: "Webhook.Webhooks" };
    }
    "Webhook serving" {
        /// Address to listen on at --webhook-secure-port. Empty, 0.0.0.0 and :: stand for all interfaces and
        /// IP families.
        webhook_bind_address: IpAddr = "0.0.0.0";
        /// Directory of cloud-controller-manager.crt and cloud-controller-manager.key, generated if missing.
        /// Ignored with --webhook-tls-cert-file.
        webhook_cert_dir: String = "";
        /// Serve webhooks over HTTP/1.1 only.
        webhook_disable_http2_serving: bool = "false";
        /// Port of the webhooks; 0: none.
        webhook_secure_port: i64 = "10260";
        /// File with the certificate for webhooks, followed by its chain; reloaded when it changes.
        webhook_tls_cert_file: String = "";
        /// The same as --tls-cipher-suites, for webhooks.
        webhook_tls_cipher_suites: Vec<String> = "";
        /// The same as --tls-curve-preferences, for webhooks.
        webhook_tls_curve_preferences: Vec<i32> = "";
        /// The same as --tls-min-version, for webhooks.
        webhook_tls_min_version: String = "";
        /// File with the private key of --webhook-tls-cert-file.
        webhook_tls_private_key_file: String = "";
        #[expect(dead_code)]
        webhook_tls_sni_cert_key: NamedCertKeys = "" {
            parity: NoEffect("each client gets the certificate of --webhook-tls-cert-file; give that one all names"),
        };
    }
    "Secure serving" {
        /// Address to listen on at --secure-port. Empty, 0.0.0.0 and :: stand for all interfaces and IP
        /// families.
        bind_address: IpAddr = "0.0.0.0" { configz: "Generic.Address" };
        /// Directory of cloud-controller-manager.crt and cloud-controller-manager.key, generated if missing;
        /// empty: kept in memory. Ignored with --tls-cert-file.
        cert_dir: String = "";
        /// Serve HTTP/1.1 only.
        disable_http2_serving: bool = "false";
        /// Maximum number of streams that a client may open on one HTTP/2 connection; 0: 16.
        http2_max_streams_per_connection: i64 = "0";
        #[expect(dead_code)]
        permit_address_sharing: bool = "false" {
            parity: NoEffect("SO_REUSEADDR is always set"),
        };
        /// Listen with SO_REUSEPORT, so that a second process can share the port.
        permit_port_sharing: bool = "false";
        /// Port of HTTPS with health, metrics and debugging; 0: none.
        secure_port: i64 = "10258" { configz: "Generic.Port" };
        /// File with the certificate for HTTPS, followed by its chain; reloaded when it changes.
        tls_cert_file: String = "";
        /// IANA names of the cipher suites to allow, separated by commas; empty: all that are secure.
        tls_cipher_suites: Vec<String> = "";
        /// TLS numbers of the key exchanges to allow, such as 23 (secp256r1), 24 (secp384r1) and 29 (X25519);
        /// empty: all.
        tls_curve_preferences: Vec<i32> = "";
        /// Minimum version of TLS: VersionTLS12 or VersionTLS13; empty: VersionTLS12.
        tls_min_version: String = "";
        /// File with the private key of --tls-cert-file.
        tls_private_key_file: String = "";
        #[expect(dead_code)]
        tls_sni_cert_key: NamedCertKeys = "" {
            parity: NoEffect("each client gets the certificate of --tls-cert-file; give that one all names"),
        };
    }
    "Authentication" {
        /// Kubeconfig with the right to create tokenreviews.authentication.k8s.io. If empty outside of a Pod,
        /// callers with a token are anonymous, and no client CA is looked up in the cluster.
        authentication_kubeconfig: String = "";
        /// Do not look up missing authentication configuration in the cluster.
        authentication_skip_lookup: bool = "false";
        /// Time for which the answer to a TokenReview is cached.
        authentication_token_webhook_cache_ttl: GoDuration = "10s";
        /// Start although the lookup of missing authentication configuration failed. All callers may then be
        /// anonymous.
        authentication_tolerate_lookup_failure: bool = "false";
        /// File with CAs of client certificates; a certificate's common name is the user.
        client_ca_file: String = "";
        #[expect(dead_code)]
        requestheader_allowed_names: Vec<String> = "" {
            parity: NoEffect("nothing proxies to this server: callers show a client certificate or a token of their own"),
        };
        #[expect(dead_code)]
        requestheader_client_ca_file: String = "" {
            parity: NoEffect("nothing proxies to this server: callers show a client certificate or a token of their own"),
        };
        #[expect(dead_code)]
        requestheader_extra_headers_prefix: Vec<String> = "x-remote-extra-" {
            parity: NoEffect("nothing proxies to this server: callers show a client certificate or a token of their own"),
        };
        #[expect(dead_code)]
        requestheader_group_headers: Vec<String> = "x-remote-group" {
            parity: NoEffect("nothing proxies to this server: callers show a client certificate or a token of their own"),
        };
        #[expect(dead_code)]
        requestheader_uid_headers: Vec<String> = "" {
            parity: NoEffect("nothing proxies to this server: callers show a client certificate or a token of their own"),
        };
        #[expect(dead_code)]
        requestheader_username_headers: Vec<String> = "x-remote-user" {
            parity: NoEffect("nothing proxies to this server: callers show a client certificate or a token of their own"),
        };
    }
    "Authorization" {
        /// HTTP paths served without authorization; a trailing * matches any suffix.
        authorization_always_allow_paths: Vec<String> = "/healthz,/readyz,/livez";
        /// Kubeconfig with the right to create subjectaccessreviews.authorization.k8s.io. If empty outside of
        /// a Pod, only --authorization-always-allow-paths are served.
        authorization_kubeconfig: String = "";
        /// Time for which a SubjectAccessReview that allows is cached.
        authorization_webhook_cache_authorized_ttl: GoDuration = "10s";
        /// Time for which a SubjectAccessReview that denies is cached.
        authorization_webhook_cache_unauthorized_ttl: GoDuration = "10s";
    }
    "Misc" {
        /// Kubeconfig with address and credentials for the API server; empty: the Pod's service account.
        kubeconfig: String = "" { configz: "Generic.ClientConnection.kubeconfig" };
        /// URL of the API server; overrides that of the kubeconfig.
        master: String = "";
        /// Period in which addresses and labels of each initialised Node are refreshed.
        node_status_update_frequency: GoDuration = "5m0s" { configz: "NodeStatusUpdateFrequency" };
    }
    "Global" {
        /// Print this help and exit.
        help: bool = "false" { short: Some('h') };
        #[expect(dead_code)]
        log_flush_frequency: GoDuration = "5s" { parity: NoEffect("every line is written at once") };
        #[expect(dead_code)]
        log_text_info_buffer_size: Quantity = "0" { parity: NoEffect("every line is written at once") };
        /// Write warnings and errors to standard error, all other lines to standard output; false: all to
        /// standard error.
        log_text_split_stream: bool = "false";
        /// Format of log lines: text or json.
        logging_format: String = "text" { parity: Better("json works too") };
        /// Verbosity of the log: 4 adds debug lines, 6 trace lines, 8 requests to the API server, 10 trace
        /// lines of libraries.
        v: u32 = "0" { short: Some('v') };
        /// Print the version and exit; raw: print contract, parity and platform too.
        version: Version = "false";
        /// Higher verbosity for some modules: pattern=N, separated by commas. A pattern, with * and ?,
        /// matches a part of a module's path, or the whole path if it has / or ::.
        vmodule: Vec<ModuleVerbosity> = "";
    }
}

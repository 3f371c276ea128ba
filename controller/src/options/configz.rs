//! `/configz`: the flags in the shape of upstream's configuration object (HTTP-9).

use outrigger_core::go_duration::format;
use serde_json::{Value, json};

use super::{Flags, items};

/// The whole page. Fields of upstream without a flag of ours are left out.
pub(super) fn object(flags: &Flags) -> Value {
    let (api_server, election) = (&flags.api_server, &flags.election);
    json!({"cloudcontrollermanager.config.k8s.io": {
        "kind": "CloudControllerManagerConfiguration",
        "apiVersion": "cloudcontrollermanager.config.k8s.io/v1alpha1",
        "Generic": {
            "Address": flags.serving.bind_address,
            "ClientConnection": {
                "burst": api_server.kube_api_burst,
                "contentType": "application/json",
                "kubeconfig": api_server.kubeconfig,
                "qps": api_server.kube_api_qps,
            },
            "Controllers": items(&flags.controllers),
            "Debugging": {"enableContentionProfiling": false, "enableProfiling": flags.profiling},
            "LeaderElection": {
                "leaderElect": election.leader_elect,
                "leaseDuration": format(election.leader_elect_lease_duration),
                "renewDeadline": format(election.leader_elect_renew_deadline),
                "resourceLock": election.leader_elect_resource_lock,
                "resourceName": election.leader_elect_resource_name,
                "resourceNamespace": election.leader_elect_resource_namespace,
                "retryPeriod": format(election.leader_elect_retry_period),
            },
            "LeaderMigrationEnabled": false,
            "MinResyncPeriod": format(api_server.min_resync_period),
            "Port": flags.serving.secure_port,
        },
        "KubeCloudShared": {
            "AllocateNodeCIDRs": flags.cluster.allocate_node_cidrs,
            "AllowUntaggedCloud": flags.provider.allow_untagged_cloud,
            "CIDRAllocatorType": flags.cluster.cidr_allocator_type,
            "CloudProvider": {"CloudConfigFile": "", "Name": flags.provider.cloud_provider},
            "ClusterCIDR": flags.cluster.cluster_cidr.texts().join(","),
            "ClusterName": flags.cluster.cluster_name,
            "ConfigureCloudRoutes": flags.cluster.configure_cloud_routes,
            "NodeMonitorPeriod": format(flags.nodes.node_monitor_period),
            "NodeSyncPeriod": "0s",
            "RouteReconciliationPeriod": format(flags.cluster.route_reconciliation_period),
        },
        "NodeController": {
            "ConcurrentNodeStatusUpdates": flags.nodes.concurrent_node_status_updates,
            "ConcurrentNodeSyncs": flags.nodes.concurrent_node_syncs,
        },
        "NodeStatusUpdateFrequency": format(flags.nodes.node_status_update_frequency),
        "ServiceController": {"ConcurrentServiceSyncs": flags.service.concurrent_service_syncs},
        "Webhook": {"Webhooks": items(&flags.webhook.webhooks)},
    }})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use crate::options;

    fn page(args: &[&str]) -> Value {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let config = options::parse_from(&args, &BTreeMap::new());
        config.unwrap().configz
    }

    #[test]
    fn flags_keep_their_types() {
        let page = page(&[
            "--secure-port=10258",
            "--controllers=*,-route",
            "--leader-elect=T",
            "--node-monitor-period=5000ms",
            "--cluster-name=kubernetes",
        ]);
        let config = &page["cloudcontrollermanager.config.k8s.io"];
        assert_eq!(config["kind"], "CloudControllerManagerConfiguration");
        assert_eq!(config["Generic"]["Port"], 10258);
        assert_eq!(config["Generic"]["Controllers"], json!(["*", "-route"]));
        assert_eq!(config["Generic"]["LeaderElection"]["leaderElect"], true);
        assert_eq!(config["KubeCloudShared"]["NodeMonitorPeriod"], "5s");
        assert_eq!(config["KubeCloudShared"]["ClusterName"], "kubernetes");
        assert_eq!(config["NodeController"]["ConcurrentNodeSyncs"], 32);
        assert_eq!(config["NodeStatusUpdateFrequency"], "5m0s");
        assert_eq!(config["ServiceController"]["ConcurrentServiceSyncs"], 32);
    }
}

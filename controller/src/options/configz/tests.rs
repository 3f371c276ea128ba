use std::collections::BTreeMap;

use expect_test::expect;
use serde_json::{Value, json};

use crate::options;

fn page(args: &[&str]) -> Value {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let config = options::parse_from(&args, &BTreeMap::new());
    config.unwrap().pages.configz
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
}

#[test]
fn without_flags_the_page_has_upstreams_fields() {
    let page = serde_json::to_string_pretty(&page(&[])).unwrap();
    expect![[r#"
        {
          "cloudcontrollermanager.config.k8s.io": {
            "Generic": {
              "Address": "0.0.0.0",
              "ClientConnection": {
                "burst": 2000,
                "contentType": "application/json",
                "kubeconfig": "",
                "qps": 1000.0
              },
              "ControllerStartInterval": "0s",
              "Controllers": [
                "*"
              ],
              "Debugging": {
                "enableContentionProfiling": false,
                "enableProfiling": true
              },
              "LeaderElection": {
                "leaderElect": true,
                "leaseDuration": "15s",
                "renewDeadline": "10s",
                "resourceLock": "leases",
                "resourceName": "cloud-controller-manager",
                "resourceNamespace": "kube-system",
                "retryPeriod": "2s"
              },
              "LeaderMigrationEnabled": false,
              "MinResyncPeriod": "12h0m0s",
              "Port": 10258
            },
            "KubeCloudShared": {
              "AllocateNodeCIDRs": false,
              "AllowUntaggedCloud": false,
              "CIDRAllocatorType": "RangeAllocator",
              "CloudProvider": {
                "CloudConfigFile": "",
                "Name": ""
              },
              "ClusterCIDR": "",
              "ClusterName": "kubernetes",
              "ConfigureCloudRoutes": true,
              "NodeMonitorPeriod": "5s",
              "NodeSyncPeriod": "0s",
              "RouteReconciliationPeriod": "30m0s",
              "UseServiceAccountCredentials": false
            },
            "NodeController": {
              "ConcurrentNodeStatusUpdates": 0,
              "ConcurrentNodeSyncs": 32
            },
            "NodeStatusUpdateFrequency": "5m0s",
            "ServiceController": {
              "ConcurrentServiceSyncs": 32
            },
            "Webhook": {
              "Webhooks": []
            },
            "apiVersion": "cloudcontrollermanager.config.k8s.io/v1alpha1",
            "kind": "CloudControllerManagerConfiguration"
          }
        }"#]]
    .assert_eq(&page);
}

//! `/configz`: the flags in the shape of upstream's configuration object (HTTP-9).

use serde_json::{Value, json};

use super::{catalogue, config::FlagValue};

const GROUP: &str = "cloudcontrollermanager.config.k8s.io";

/// The whole page. Fields of upstream without a flag of ours are left out.
pub(super) fn object(flags: &[FlagValue]) -> Value {
    let mut object = json!({
        "kind": "CloudControllerManagerConfiguration",
        "apiVersion": format!("{GROUP}/v1alpha1"),
    });
    for declared in catalogue::flags() {
        let given = flags.iter().find(|flag| flag.name == declared.name);
        if let (Some(path), Some(flag)) = (declared.configz, given) {
            let field = path
                .split('.')
                .fold(&mut object, |object, name| &mut object[name]);
            *field = typed(&declared.kind, &flag.value);
        }
    }
    json!({ GROUP: object })
}

fn typed(kind: &str, text: &str) -> Value {
    match kind {
        "bool" | "int" | "int32" | "float32" => {
            serde_json::from_str(text).unwrap_or_else(|_| text.into())
        }
        "strings" => {
            let items = text.trim_matches(['[', ']']).split(',');
            items.filter(|item| !item.is_empty()).collect()
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;

    use super::*;
    use crate::options;

    #[test]
    fn flags_keep_their_types() {
        let flags = [
            ("secure-port", "10258"),
            ("controllers", "[*,-route]"),
            ("leader-elect", "true"),
            ("node-monitor-period", "5s"),
            ("cluster-name", "kubernetes"),
        ];
        let flags = flags.map(|(name, value)| FlagValue {
            name: name.into(),
            value: value.into(),
            explicit: false,
        });
        let page = object(&flags);
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
        let config = options::parse_from(&[], &BTreeMap::new()).unwrap();
        let page = serde_json::to_string_pretty(&object(&config.flags)).unwrap();
        expect![[r#"
            {
              "cloudcontrollermanager.config.k8s.io": {
                "Generic": {
                  "Address": "0.0.0.0",
                  "ClientConnection": {
                    "burst": 2000,
                    "contentType": "application/json",
                    "kubeconfig": "",
                    "qps": 1000
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
}

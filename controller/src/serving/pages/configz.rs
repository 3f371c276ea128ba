//! `/configz`: the flags in the shape of upstream's configuration object (HTTP-9).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::options::config::FlagValue;

const GROUP: &str = "cloudcontrollermanager.config.k8s.io";

/// The whole page. What upstream has a field for and we no flag is left out.
pub(super) fn of(flags: &[FlagValue]) -> Value {
    let flags = Flags(flags.iter().map(|f| (&*f.name, &*f.value)).collect());
    json!({ GROUP: {
        "kind": "CloudControllerManagerConfiguration",
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "Generic": generic(&flags),
        "KubeCloudShared": {
            "CloudProvider": {
                "Name": flags.text("cloud-provider"),
                "CloudConfigFile": flags.text("cloud-config"),
            },
            "UseServiceAccountCredentials": flags.json("use-service-account-credentials"),
            "AllowUntaggedCloud": flags.json("allow-untagged-cloud"),
            "RouteReconciliationPeriod": flags.text("route-reconciliation-period"),
            "NodeMonitorPeriod": flags.text("node-monitor-period"),
            "ClusterName": flags.text("cluster-name"),
            "ClusterCIDR": flags.text("cluster-cidr"),
            "AllocateNodeCIDRs": flags.json("allocate-node-cidrs"),
            "CIDRAllocatorType": flags.text("cidr-allocator-type"),
            "ConfigureCloudRoutes": flags.json("configure-cloud-routes"),
            "NodeSyncPeriod": flags.text("node-sync-period"),
        },
        "NodeController": {
            "ConcurrentNodeSyncs": flags.json("concurrent-node-syncs"),
            "ConcurrentNodeStatusUpdates": flags.json("concurrent-node-status-updates"),
        },
        "ServiceController": {
            "ConcurrentServiceSyncs": flags.json("concurrent-service-syncs"),
        },
        "NodeStatusUpdateFrequency": flags.text("node-status-update-frequency"),
        "Webhook": { "Webhooks": flags.list("webhooks") },
    }})
}

fn generic(flags: &Flags<'_>) -> Value {
    json!({
        "Port": flags.json("secure-port"),
        "Address": flags.text("bind-address"),
        "MinResyncPeriod": flags.text("min-resync-period"),
        "ClientConnection": {
            "kubeconfig": flags.text("kubeconfig"),
            "contentType": flags.text("kube-api-content-type"),
            "qps": flags.json("kube-api-qps"),
            "burst": flags.json("kube-api-burst"),
        },
        "ControllerStartInterval": flags.text("controller-start-interval"),
        "LeaderElection": {
            "leaderElect": flags.json("leader-elect"),
            "leaseDuration": flags.text("leader-elect-lease-duration"),
            "renewDeadline": flags.text("leader-elect-renew-deadline"),
            "retryPeriod": flags.text("leader-elect-retry-period"),
            "resourceLock": flags.text("leader-elect-resource-lock"),
            "resourceName": flags.text("leader-elect-resource-name"),
            "resourceNamespace": flags.text("leader-elect-resource-namespace"),
        },
        "Controllers": flags.list("controllers"),
        "Debugging": {
            "enableProfiling": flags.json("profiling"),
            "enableContentionProfiling": flags.json("contention-profiling"),
        },
        "LeaderMigrationEnabled": flags.json("enable-leader-migration"),
    })
}

struct Flags<'a>(BTreeMap<&'a str, &'a str>);

impl Flags<'_> {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// A number or a truth value.
    fn json(&self, name: &str) -> Value {
        let text = self.text(name);
        serde_json::from_str(text).unwrap_or_else(|_| text.into())
    }

    /// `[a,b]`.
    fn list(&self, name: &str) -> Vec<&str> {
        let text = self.text(name);
        let inner = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let items = inner.unwrap_or(text).split(',');
        items.filter(|item| !item.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let page = of(&flags);
        let config = &page["cloudcontrollermanager.config.k8s.io"];
        assert_eq!(config["kind"], "CloudControllerManagerConfiguration");
        assert_eq!(config["Generic"]["Port"], 10258);
        assert_eq!(config["Generic"]["Controllers"], json!(["*", "-route"]));
        assert_eq!(config["Generic"]["LeaderElection"]["leaderElect"], true);
        assert_eq!(config["KubeCloudShared"]["NodeMonitorPeriod"], "5s");
        assert_eq!(config["KubeCloudShared"]["ClusterName"], "kubernetes");
    }
}

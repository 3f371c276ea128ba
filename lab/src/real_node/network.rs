//! The network of a machine in a network namespace: addresses of Pods, and kube-proxy for Services.

use std::{net::IpAddr, path::Path};

use serde_json::json;

use super::CLUSTER_CIDR;

/// containerd makes the configuration of Pods' networks from it, once the kubelet has told the Node's Pod CIDRs.
pub(super) const CNI_TEMPLATE: &str = "cni-template.json";

/// The configuration of kube-proxy.
pub(super) const KUBE_PROXY: &str = "kube-proxy.json";

/// The programs and addresses that serve Pods.
pub(super) struct PodNetwork<'a> {
    pub(super) kube_proxy: &'a Path,
    pub(super) kubeconfig: &'a Path,
    /// The cluster's DNS server.
    pub(super) dns: IpAddr,
}

/// A bridge for the Pods of a machine. Packets to Pods of other machines leave it by its default route.
pub(super) fn cni_template(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        r#"{{"cniVersion": "0.4.0", "name": "pods", "plugins": [{{
  "type": "bridge", "bridge": "pods", "isDefaultGateway": true, "hairpinMode": true,
  "ipam": {{"type": "host-local", "dataDir": "{dir}/addresses", "ranges": [
    {{{{range $i, $range := .PodCIDRRanges}}}}{{{{if $i}}}}, {{{{end}}}}[{{"subnet": "{{{{$range}}}}"}}]{{{{end}}}}
  ]}}
}}]}}
"#
    )
}

impl PodNetwork<'_> {
    pub(super) fn kube_proxy(&self, node: &str) -> String {
        let config = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": self.kubeconfig},
            "hostnameOverride": node,
            "clusterCIDR": CLUSTER_CIDR,
            // These limits are those of the whole machine: a namespace cannot set them.
            "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        });
        config.to_string()
    }

    /// The lines of the machine's script that run kube-proxy.
    pub(super) fn script(&self) -> String {
        format!(
            "# Packets between Pods of one bridge come back through the rules of Services, too.
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
while :; do
  '{}' --config={KUBE_PROXY} >>kube-proxy.log 2>&1 </dev/null
  sleep 0.1
done &
",
            self.kube_proxy.display()
        )
    }
}

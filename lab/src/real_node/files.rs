//! The configuration of containerd and the kubelet, and the script that runs them.

use std::{
    fs,
    net::{IpAddr, TcpListener},
    path::Path,
};

use serde_json::json;

use super::{
    network::{self, PodNetwork},
    pause,
    requirements::Requirements,
};
use outrigger_testbed::{Error, Result};

pub(super) const SCRIPT: &str = "machine.sh";
pub(super) const CONTAINERD_SOCKET: &str = "containerd.sock";
/// A line of this pipe kills the kubelet.
pub(super) const CONTROL: &str = "control";
/// The kubelet starts once this file exists.
pub(super) const IMAGES_READY: &str = "images-ready";

pub(super) struct Files<'a> {
    pub(super) dir: &'a Path,
    pub(super) name: &'a str,
    pub(super) taints: &'a str,
    pub(super) kubelet: &'a Path,
    pub(super) kubeconfig: &'a Path,
    pub(super) authority: &'a Path,
    pub(super) cgroup: &'a str,
    pub(super) requirements: &'a Requirements,
    pub(super) address: IpAddr,
    /// The kubelet asks the cluster for its serving certificate, and has none before.
    pub(super) serving_certificate: bool,
    /// Missing on a machine without a network of its own.
    pub(super) network: Option<PodNetwork<'a>>,
}

impl Files<'_> {
    pub(super) fn write(&self) -> Result<()> {
        let file = |name: &str, text: String| {
            let path = self.dir.join(name);
            fs::write(&path, text).map_err(Error::io(format!("write {}", path.display())))
        };
        for dir in ["cni", "manifests", "plugins"] {
            let path = self.dir.join(dir);
            fs::create_dir(&path).map_err(Error::io(format!("make {}", path.display())))?;
        }
        if let Some(network) = &self.network {
            file(network::CNI_TEMPLATE, network::cni_template(self.dir))?;
            file(network::KUBE_PROXY, network.kube_proxy(self.name))?;
        } else {
            let loopback = json!({"cniVersion": "0.4.0", "name": "loopback", "plugins": [{"type": "loopback"}]});
            file("cni/10-loopback.conflist", loopback.to_string())?;
        }
        file("containerd.toml", self.containerd())?;
        file("kubelet.json", self.kubelet()?)?;
        file(SCRIPT, self.script())
    }

    fn containerd(&self) -> String {
        let dir = self.dir.display();
        format!(
            r#"version = 2
root = "{dir}/containerd"
state = "{dir}/containerd-state"
# File systems and devices that this machine may not have; overlayfs is used.
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
  address = "{dir}/{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  # In a container or a small virtual machine, root may lack the right to lower a score.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{dir}/cni"{template}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#,
            template = self.network.as_ref().map_or_else(String::new, |_| {
                format!("\n    conf_template = \"{dir}/{}\"", network::CNI_TEMPLATE)
            }),
            image = pause::IMAGE,
            cni = self.requirements.cni.display(),
        )
    }

    /// The kubelet's usual one where no other process can have it.
    fn kubelet_port(&self) -> Result<u16> {
        if self.network.is_some() {
            return Ok(10250);
        }
        let free = TcpListener::bind((self.address, 0)).and_then(|listener| listener.local_addr());
        let address = free.map_err(Error::io("find a port for the kubelet"))?;
        Ok(address.port())
    }

    fn kubelet(&self) -> Result<String> {
        let port = self.kubelet_port()?;
        let dns: Vec<_> = self.network.iter().map(|network| network.dns).collect();
        let below = |name: &str| self.dir.join(name).display().to_string();
        let never = json!({
            "imagefs.available": "0%",
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
        });
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": format!("unix://{}", below(CONTAINERD_SOCKET)),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", self.cgroup),
            "failCgroupV1": false,
            "failSwapOn": false,
            "makeIPTablesUtilChains": false,
            "address": self.address,
            "port": port,
            "healthzPort": 0,
            "serverTLSBootstrap": self.serving_certificate,
            "staticPodPath": below("manifests"),
            "clusterDomain": "cluster.local",
            "clusterDNS": dns,
            "podLogsDir": below("pods"),
            "volumePluginDir": below("plugins"),
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": self.authority},
            },
            "authorization": {"mode": "Webhook"},
            // This machine is shared with its user: its state is no reason to evict a Pod or delete an image.
            "evictionHard": never,
            "imageGCHighThresholdPercent": 100,
            "localStorageCapacityIsolation": false,
            // A container that was killed starts again at once, and then soon.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        });
        Ok(config.to_string())
    }

    fn script(&self) -> String {
        let path = "PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin";
        format!(
            r#"cd '{dir}' || exit
export {path}
# Directories with names that are compiled into the programs: in this mount namespace they are ours.
for place in /run/containerd /run/netns /var/lib/cni /var/log/containers /var/lib/kubelet; do
  own='{dir}'/places$place
  mkdir -p "$place" "$own" && mount --bind "$own" "$place" || exit
done
mkfifo {CONTROL} || exit
'{containerd}' --config containerd.toml >>containerd.log 2>&1 </dev/null &
until [ -e {IMAGES_READY} ]; do sleep 0.02; done
{proxy}# Open for writing too, so that the end of one writer does not end it.
while read -r _; do kill -9 "$(cat kubelet.pid)"; done <>{CONTROL} &
while :; do
  '{kubelet}' --config=kubelet.json --kubeconfig='{kubeconfig}' --hostname-override='{name}' --node-ip={address} \
    --cloud-provider=external --register-with-taints='{taints}' --cert-dir=kubelet-pki --v=2 >>kubelet.log 2>&1 </dev/null &
  echo $! >kubelet.pid
  wait $!
  sleep 0.1
done
"#,
            dir = self.dir.display(),
            containerd = self.requirements.containerd.display(),
            kubelet = self.kubelet.display(),
            kubeconfig = self.kubeconfig.display(),
            name = self.name,
            taints = self.taints,
            address = self.address,
            proxy = self
                .network
                .as_ref()
                .map_or_else(String::new, PodNetwork::script),
        )
    }
}

//! A machine with containerd and a real kubelet, which registers it with `--cloud-provider=external`.
//!
//! ```text
//!  RealNode ─► unshare ─► one PID and mount namespace: containerd ─► shims ─► containers
//!                                                      kubelet, kube-proxy, started again when they end
//! ```
//!
//! The namespace's first process ends with this process, and the kernel ends all others of the namespace with it, as a
//! power failure does. Their mounts go with the namespace, files lie in one directory, and processes of Pods in one
//! cgroup, so that nothing is left on this machine.

mod cgroup;
mod files;
mod network;
mod pause;
pub(crate) mod requirements;

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use outrigger_testbed::{
    ControlPlane, Error, Result,
    process::{Process, Scratch, output},
};
use tokio::{process::Command, task};

use self::{cgroup::Cgroup, network::PodNetwork, requirements::Requirements};
use crate::workloads;

/// The namespace of containerd that a kubelet's containers and images are in.
const NAMESPACE: &str = "k8s.io";

/// The addresses of all Pods in network namespaces.
pub(crate) const CLUSTER_CIDR: &str = "10.244.0.0/16";

/// Time for containerd to answer.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// The network of a machine.
#[derive(Debug, Clone)]
pub(crate) enum Network {
    /// That of this machine. Pods need `hostNetwork`: others get a loopback device only.
    Host,
    /// A network namespace by its name in `/run/netns`, with an address. Pods have addresses of the Node's Pod CIDRs, on
    /// a bridge, and kube-proxy serves Services.
    Namespace {
        /// Its name.
        name: String,
        /// The Node's address.
        address: IpAddr,
        /// The address of the cluster's DNS server.
        dns: IpAddr,
    },
}

/// A node of a control plane that was started with [`workloads`](outrigger_testbed::Options::workloads).
///
/// Dropping it ends the kubelet, containerd and every container at once, without a word to the API server.
#[derive(Debug)]
pub(crate) struct RealNode {
    // Fields are dropped in this order: the cgroup and the directory must not go while a process uses them.
    machine: Process,
    _cgroup: Cgroup,
    scratch: Scratch,
    name: String,
    address: IpAddr,
    ctr: Ctr,
}

/// The command line of the node's containerd.
#[derive(Debug)]
struct Ctr {
    program: PathBuf,
    socket: PathBuf,
}

impl RealNode {
    /// Checks that this machine can run a kubelet. The error says in one sentence why not.
    pub(crate) fn possible() -> Result<()> {
        Requirements::check()?;
        requirements::address().map(drop)
    }

    /// Starts containerd and the kubelet. The kubelet registers the Node within seconds, with `taints` in the form of its
    /// `--register-with-taints`.
    ///
    /// # Errors
    /// [`Error::NoKubelet`], in one sentence, on a machine that cannot run one: it takes root, cgroups, and Debian's
    /// packages containerd and runc.
    pub(crate) async fn start(
        plane: &ControlPlane,
        name: &str,
        network: &Network,
        taints: &str,
    ) -> Result<Self> {
        let requirements = Requirements::check()?;
        let (address, pods, mut command) = match network {
            Network::Host => (requirements::address()?, None, Vec::new()),
            Network::Namespace { name, address, dns } => {
                let nsenter = requirements.namespaced()?.display().to_string();
                let program = workloads::find(&workloads::KUBE_PROXY).await?;
                let kubeconfig = plane.kubeconfig("system:kube-proxy", None)?;
                let enter = vec![nsenter, format!("--net=/run/netns/{name}")];
                (*address, Some((program, kubeconfig, *dns)), enter)
            }
        };
        let kubelet = workloads::find(&workloads::KUBELET).await?;
        let pause = workloads::find(&workloads::PAUSE).await?;
        let scratch = Scratch::new(false)?;
        let dir = scratch.path();
        let user = format!("system:node:{name}");
        let kubeconfig = plane.kubeconfig(&user, Some("system:nodes"))?;
        // Named after the directory, which is unique.
        let cgroup = Cgroup::make(dir)?;
        let node = files::Files {
            dir,
            name,
            taints,
            kubelet: &kubelet,
            kubeconfig: &kubeconfig,
            authority: &plane.dir().join("ca.crt"),
            cgroup: cgroup.name(),
            requirements: &requirements,
            address,
            serving_certificate: plane.serving_certificates(),
            network: pods
                .as_ref()
                .map(|(kube_proxy, kubeconfig, dns)| PodNetwork {
                    kube_proxy,
                    kubeconfig,
                    dns: *dns,
                }),
        };
        node.write()?;
        pause::write(&pause, dir).await?;
        command.push(requirements.unshare.display().to_string());
        let separate = [
            "--fork",
            "--pid",
            "--mount-proc",
            "--mount",
            "--propagation=private",
            "--kill-child=KILL",
            "/bin/sh",
        ];
        command.extend(separate.map(str::to_owned));
        command.push(dir.join(files::SCRIPT).display().to_string());
        let mut machine = Process::start(
            "the kubelet's machine",
            Path::new("/usr/bin/env"),
            &command,
            dir.join("machine.log"),
        )?;
        let ctr = Ctr {
            program: requirements.ctr,
            socket: dir.join(files::CONTAINERD_SOCKET),
        };
        let version = || async {
            let answer = ctr.run(&["version"], "reach containerd".to_owned()).await;
            answer.map(drop).map_err(|error| error.to_string())
        };
        machine.ready(STARTS_WITHIN, version).await?;
        let node = Self {
            machine,
            _cgroup: cgroup,
            name: name.to_owned(),
            address,
            ctr,
            scratch,
        };
        let archive = node.scratch.path().join(pause::ARCHIVE);
        node.import(&archive).await?;
        fs::write(node.scratch.path().join(files::IMAGES_READY), "")
            .map_err(Error::io("let the kubelet start"))?;
        Ok(node)
    }

    /// The name that the kubelet registers.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The address of the machine, the kubelet's `--node-ip`.
    pub(crate) const fn address(&self) -> IpAddr {
        self.address
    }

    /// The directory with logs: `containerd.log`, `kubelet.log`, and below `pods` those of containers.
    pub(crate) fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Loads the image of an OCI or Docker archive and returns its name.
    pub(crate) async fn import(&self, archive: &Path) -> Result<String> {
        let archive = archive.display().to_string();
        let action = format!("load the image of {archive}");
        let said = self
            .ctr
            .run(&["images", "import", &archive], action)
            .await?;
        // "unpacking NAME (DIGEST)...done"
        let name = said.split_whitespace().nth(1).unwrap_or_default();
        Ok(name.to_owned())
    }

    /// [`Self::import`] on each of `nodes`.
    pub(crate) async fn import_on(nodes: &[Self], archive: &Path) -> Result<String> {
        let mut name = String::new();
        for node in nodes {
            name = node.import(archive).await?;
        }
        Ok(name)
    }

    /// Kills a container's process as `kill -9` does. `id` is that of the container's status, with its `containerd://`.
    pub(crate) async fn kill_container(&self, id: &str) -> Result<()> {
        let id = id.rsplit('/').next().unwrap_or(id);
        let action = format!("kill the container {id}");
        let kill = ["tasks", "kill", "--signal", "SIGKILL", id];
        self.ctr.run(&kill, action).await.map(drop)
    }

    /// Kills the kubelet as `kill -9` does; the machine starts it again at once. Containers keep running.
    pub(crate) async fn kill_kubelet(&self) -> Result<()> {
        let control = self.scratch.path().join(files::CONTROL);
        let written = task::spawn_blocking(move || fs::write(control, "kubelet\n")).await;
        let failed = Error::io("have the kubelet killed");
        match written {
            Ok(written) => written.map_err(failed),
            Err(ended) => Err(failed(ended.into())),
        }
    }

    /// An error if the machine has ended, or was never able to start.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.machine.check()
    }
}

impl Ctr {
    async fn run(&self, args: &[&str], action: String) -> Result<String> {
        let mut ctr = Command::new(&self.program);
        ctr.arg("--address").arg(&self.socket);
        ctr.args(["--namespace", NAMESPACE]).args(args);
        output("ctr", &mut ctr, || action).await
    }
}

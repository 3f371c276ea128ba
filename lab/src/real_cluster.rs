//! A cluster with packets: several machines with a kubelet each, in a cloud made of network namespaces.
//!
//! ```text
//!  ControlPlane ─── router namespace ─┬─ machine-1: containerd, kubelet, kube-proxy, Pods on a bridge
//!       │            (provider-linux) ├─ machine-2
//!  cloud-controller-manager ──────────┴─ machine-3
//! ```
//!
//! Pod CIDRs are those of the controller, and packets to Pods of another machine go over its routes, nothing else.

mod cloud;
mod names;

use std::{path::PathBuf, time::Duration};

use futures::future::try_join_all;
use outrigger_testbed::{
    ControlPlane, Error, Options, Result, binaries::of_this_project, pair::Pair, process::Process,
    providers::Launch,
};

use self::cloud::Cloud;
use crate::{
    managers::Managers,
    real_node::{CLUSTER_CIDR, RealNode, requirements::Requirements},
};

/// Time for the provider to listen.
const PROVIDER_STARTS_WITHIN: Duration = Duration::from_secs(30);

/// A control plane, machines, the provider of their cloud, and the controller in front of it.
///
/// Dropping it, or the end of this process, ends all processes and removes the cloud's namespaces.
#[derive(Debug)]
pub(crate) struct RealCluster {
    // Fields are dropped in this order: the controller must not see machines go.
    pair: Pair,
    _names: Process,
    nodes: Vec<RealNode>,
    _managers: Managers,
    plane: ControlPlane,
    cloud: Cloud,
}

impl RealCluster {
    /// Checks that this machine can run one. The error says in one sentence why not.
    pub(crate) fn possible() -> Result<()> {
        Requirements::check()?.namespaced().map(drop)
    }

    /// Starts `machines` of them, `machine-1` and so on. Kubelets register their Nodes, and the controller initialises
    /// them, within seconds. `controller_args` are further flags of the controller. It approves the serving certificates of
    /// kubelets, without which the API server reads no logs, unless these flags name other controllers.
    ///
    /// # Errors
    /// [`Error::NoKubelet`], in one sentence, on a machine that cannot run kubelets in namespaces: it takes root, cgroups,
    /// and Debian's packages containerd, runc, containernetworking-plugins and nftables.
    pub(crate) async fn start(
        machines: usize,
        options: Options,
        controller_args: &[String],
    ) -> Result<Self> {
        Self::possible()?;
        let (controller, provider) = (
            of_this_project("cloud-controller-manager")?,
            of_this_project("provider-linux")?,
        );
        let cloud = Cloud::up(provider).await?;
        let plane = ControlPlane::start(Options {
            address: Cloud::host(),
            workloads: true,
            serving_certificates: true,
            ..options
        })
        .await?;
        let managers = Managers::start(&plane).await?;
        let mut args = vec![
            "--allocate-node-cidrs".to_owned(),
            format!("--cluster-cidr={CLUSTER_CIDR}"),
        ];
        let is_named = |arg: &String| arg.starts_with("--controllers=");
        if !controller_args.iter().any(is_named) {
            args.push("--controllers=*,node-ipam,kubelet-serving-approving".to_owned());
        }
        args.extend_from_slice(controller_args);
        let launch = Launch::of_command(cloud.provider());
        let kubeconfig = plane.admin_kubeconfig()?;
        let pair = Pair::start(
            &launch,
            &controller,
            &kubeconfig,
            args,
            PROVIDER_STARTS_WITHIN,
        )
        .await?;
        let names = names::serve(&plane, Cloud::host()).await?;
        let mut cluster = Self {
            pair,
            _names: names,
            nodes: Vec::new(),
            _managers: managers,
            plane,
            cloud,
        };
        let mut networks = Vec::new();
        for number in 1..=machines {
            let name = format!("machine-{number}");
            networks.push((cluster.cloud.add(&name).await?, name));
        }
        let plane = &cluster.plane;
        let start = networks
            .iter()
            .map(|(network, name)| RealNode::start(plane, name, network, ""));
        cluster.nodes = try_join_all(start).await?;
        Ok(cluster)
    }

    /// The control plane.
    pub(crate) const fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The machines that have not been deleted.
    pub(crate) fn nodes(&self) -> &[RealNode] {
        &self.nodes
    }

    /// Turns a machine off: its link is down, and the cloud says so. Its processes keep running.
    pub(crate) async fn power_off(&self, name: &str) -> Result<()> {
        self.cloud.machine("stop", name).await
    }

    /// Deletes a machine from the cloud, with all that runs on it.
    pub(crate) async fn delete(&mut self, name: &str) -> Result<()> {
        let (gone, left) = std::mem::take(&mut self.nodes)
            .into_iter()
            .partition(|node| node.name() == name);
        self.nodes = left;
        let ended = tokio::task::spawn_blocking(move || drop::<Vec<RealNode>>(gone)).await;
        ended.map_err(|error| Error::io(format!("end the machine {name}"))(error.into()))?;
        self.cloud.machine("delete", name).await
    }

    /// The name of the cloud, as provider-linux has it.
    pub(crate) fn cloud(&self) -> &str {
        self.cloud.name()
    }

    /// Where the cloud's provider listens.
    pub(crate) fn endpoint(&self) -> String {
        self.pair.endpoint()
    }

    /// The network namespace of the cloud's router.
    pub(crate) fn router(&self) -> String {
        self.cloud.router()
    }

    /// The logs of controller and provider.
    pub(crate) fn logs(&self) -> [PathBuf; 2] {
        [
            self.pair.controller.log().to_owned(),
            self.pair.provider_log(),
        ]
    }

    /// An error if a process has ended that is to run.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(RealNode::check)?;
        self.pair.check()
    }
}

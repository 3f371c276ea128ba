//! Controller and provider as two containers of one Pod, on a real kubelet.
//!
//! ```text
//!  deploy/kustomize ─► Deployment ─► scheduler ─► kubelet ─► controller + provider ─► the Node is initialised
//! ```
//!
//! Each step disturbs the Pod and then shows that nothing was lost: the Service that was served before has not been
//! written since, so its load balancer was not changed, and a new Service is served.

mod cloud;
mod disturbances;
mod manifest;
mod pod;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use futures::future::try_join_all;
use k8s_openapi::{
    api::core::v1::{Node, Service},
    jiff::Timestamp,
};
use kube::{Client, ResourceExt};
use outrigger_testbed::{
    ControlPlane, Options, Passed, Result,
    check::{Checked, Steps, service_named},
    cli::duration,
    nodes::{UNINITIALIZED_TAINT, is_tainted},
};

pub(crate) use self::cloud::MOCK;
use self::{
    cloud::Cloud,
    manifest::{CONTROLLER, Images, Manifest, PROVIDER},
    pod::Workload,
};
use crate::{
    managers::Managers,
    real_node::{Network, RealNode},
};

const NODE: &str = "machine-1";
/// Those of a cluster with taints.
static NODES: [&str; 3] = [NODE, "machine-2", "machine-3"];
const FIRST: &str = "web";

/// The images and the manifest to check.
#[derive(Debug, Args)]
pub(crate) struct PodCheck {
    /// Objects to apply instead of those of deploy/kustomize, such as the output of `helm template`. The Deployment, whose
    /// Pod has the containers `controller` and `provider`, gets one replica on the node's network.
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Archive of the controller's image; given twice, the Pod is upgraded to the second and rolled back.
    #[arg(long = "controller-image", value_name = "ARCHIVE", required = true)]
    pub(crate) controller: Vec<PathBuf>,
    /// Archive of the provider's image, likewise. Its cloud must have an instance for any name.
    #[arg(long = "provider-image", value_name = "ARCHIVE", required = true)]
    pub(crate) provider: Vec<PathBuf>,
    /// Archive of an image with curl, for the Pods of `helm test` that the manifest has; without it they are left out.
    #[arg(long = "test-image", value_name = "ARCHIVE", requires = "manifest")]
    pub(crate) test: Option<PathBuf>,
    /// Start three kubelets that register their Nodes with these taints, such as `a:NoSchedule,b=c:NoExecute`, and end when
    /// the Pod runs and all Nodes are initialised: disturb nothing.
    #[arg(long, default_value_t, hide_default_value = true)]
    pub(crate) taints: String,
    /// An argument of the provider; can be repeated. It may write to /cloud, which outlives the Pod.
    #[arg(
        long = "provider-arg",
        value_name = "ARG",
        allow_hyphen_values = true,
        default_values = MOCK
    )]
    pub(crate) provider_args: Vec<String>,
    /// Time limit of each step.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Components that run. Dropped in the order of the fields.
struct Stage<'a> {
    check: &'a PodCheck,
    client: Client,
    workload: Workload,
    manifest: Manifest,
    nodes: Vec<RealNode>,
    _managers: Managers,
    plane: ControlPlane,
    cloud: Cloud,
    /// The Service that is served all the time, as it was seen first, and how often the cloud was asked about it.
    served: Option<(Service, usize)>,
    extra: usize,
}

/// The Pod runs and serves a Service. Dropping it ends everything.
pub(crate) struct Deployed<'a>(Stage<'a>);

impl Deployed<'_> {
    /// Writes an administrator's kubeconfig of the cluster and returns its path.
    pub(crate) fn kubeconfig(&self) -> Result<PathBuf> {
        self.0.plane.admin_kubeconfig()
    }

    /// The directory with the logs of the first node and its Pods.
    pub(crate) fn logs(&self) -> &Path {
        self.0.nodes[0].dir()
    }
}

impl PodCheck {
    /// Starts a control plane and its kubelets, and deploys the Pod. `passed` is called after each step.
    pub(crate) async fn deploy(&self, passed: impl FnMut(Passed)) -> Result<Deployed<'_>> {
        self.begin(&mut Steps::new(passed)).await.map(Deployed)
    }

    /// Deploys the Pod and goes through all steps, on Nodes with taints without those that disturb it. `passed` is called
    /// after each.
    ///
    /// Ends at the first step that fails, with [`Unfulfilled`](outrigger_testbed::Error::Unfulfilled), which has the end of both containers' logs.
    pub(crate) async fn run(&self, passed: impl FnMut(Passed)) -> Result<()> {
        let mut steps = Steps::new(passed);
        let mut stage = self.begin(&mut steps).await?;
        if stage.plane.serving_certificates() {
            stage.reads_logs().await?;
            steps.done("the kubelet serves logs with a certificate that the Pod approved");
        }
        if let Some(archive) = &self.test {
            stage.test(archive).await?;
            steps.done("the test of the chart has passed");
        }
        if !self.taints.is_empty() {
            return Ok(());
        }
        for (container, name) in [(CONTROLLER, "controller"), (PROVIDER, "provider")] {
            stage.kill(&[container]).await?;
            let step = format!("the {name}'s container was killed, and nothing is lost");
            steps.done(&step);
        }
        stage.kill(&[PROVIDER, CONTROLLER]).await?;
        steps.done("both containers were killed, and nothing is lost");
        stage.evict().await?;
        steps.done("the Pod was evicted within its disruption budget, and nothing is lost");
        stage.restart_kubelet().await?;
        steps.done("the kubelet was killed, and no container noticed");

        let (old, new) = (stage.images(0), stage.images(usize::MAX));
        if old != new {
            let controller = Images {
                provider: old.provider.clone(),
                ..new.clone()
            };
            for (images, what) in [
                (&controller, "the controller's image is upgraded"),
                (&new, "the provider's image is upgraded"),
                (&old, "both are rolled back"),
            ] {
                stage.roll_out(images, true).await?;
                steps.done(&format!("{what}, and nothing is lost"));
            }
        }
        stage.roll_out(&old, false).await?;
        steps.done("the provider starts after the controller, as second container");
        stage.withdraw(FIRST).await?;
        steps.done("a deleted Service is gone");
        Ok(())
    }

    async fn begin<F: FnMut(Passed)>(&self, steps: &mut Steps<F>) -> Result<Stage<'_>> {
        let mut stage = Stage::set_up(self).await?;
        steps.kubeconfig = stage.plane.admin_kubeconfig()?;
        steps.done("each kubelet has registered its Node, with the taint of an uninitialised one");
        let initialised = stage.deploy().await?;
        steps.done(&format!(
            "the Pod has started on such a Node, and each is initialised, {initialised:.1} s after its controller started"
        ));
        stage.settled().await?;
        steps.done(&format!(
            "each Node is ready, and its taints are [{}]",
            self.taints
        ));
        let served = stage.serve(FIRST).await?;
        let calls = stage.cloud.mentions(&served.uid().unwrap_or_default())?;
        stage.served = Some((served, calls));
        steps.done("a Service is served");
        Ok(stage)
    }

    fn nodes(&self) -> &'static [&'static str] {
        if self.taints.is_empty() {
            return &NODES[..1];
        }
        &NODES
    }
}

impl<'a> Stage<'a> {
    async fn set_up(check: &'a PodCheck) -> Result<Self> {
        // First: it fails fast, and a build is long.
        RealNode::possible()?;
        let mut manifest = Manifest::read(check.manifest.as_deref())?;
        let options = Options {
            workloads: true,
            serving_certificates: manifest.approves_serving_certificates(),
            ..Options::default()
        };
        let plane = ControlPlane::start(options).await?;
        let managers = Managers::start(&plane).await?;
        let start = |name| RealNode::start(&plane, name, &Network::Host, &check.taints);
        let nodes = try_join_all(check.nodes().iter().copied().map(start)).await?;
        let client = plane.client()?;
        let cloud = Cloud::make(plane.dir())?;
        let workload = Workload::new(client.clone(), &manifest, &nodes)?;
        let url = plane.url();
        manifest.port = url.rsplit(':').next().unwrap_or_default().to_owned();
        cloud.dir().clone_into(&mut manifest.cloud);
        for archive in &check.controller {
            manifest
                .controller
                .push(RealNode::import_on(&nodes, archive).await?);
        }
        for archive in &check.provider {
            manifest
                .provider
                .push(RealNode::import_on(&nodes, archive).await?);
        }
        manifest.provider_args.clone_from(&check.provider_args);
        let mut stage = Self {
            check,
            workload,
            manifest,
            client,
            nodes,
            _managers: managers,
            plane,
            cloud,
            served: None,
            extra: 0,
        };
        let registered = |node: &_| {
            (!is_tainted(node)).then(|| format!("it has no taint {UNINITIALIZED_TAINT}"))
        };
        for name in check.nodes() {
            stage.node(name, "is registered", registered).await?;
        }
        Ok(stage)
    }

    fn images(&self, version: usize) -> Images {
        self.manifest.images(version)
    }

    /// Returns the seconds from the start of the controller's container to the end of the taint.
    async fn deploy(&mut self) -> Result<f64> {
        let images = self.images(0);
        self.manifest.apply(&self.client, &images, true).await?;
        for name in self.check.nodes() {
            self.initialised(name).await?;
        }
        let initialised = Timestamp::now();
        self.rolled_out().await?;
        let started = self.workload.started(CONTROLLER).await?;
        Ok(initialised.duration_since(started).as_secs_f64())
    }

    /// Waits until each Node has the taints of its kubelet and no other, and so is ready, too.
    async fn settled(&mut self) -> Result<()> {
        let check = self.check;
        let lacks = |node: &Node| {
            let taints = taints_of(node);
            (taints != check.taints).then(|| format!("its taints are {taints}"))
        };
        for name in check.nodes() {
            self.node(name, "has the taints of its kubelet", lacks)
                .await?;
        }
        Ok(())
    }

    async fn rolled_out(&mut self) -> Result<()> {
        let workload = self.workload.clone();
        self.until("the Pod is ready", async || workload.lacks().await)
            .await
    }

    /// The API server reads a log from the kubelet, whose certificate it verifies.
    async fn reads_logs(&mut self) -> Result<()> {
        let workload = self.workload.clone();
        let step = "the kubelet serves the controller's log";
        self.until(step, async || Ok(workload.log(CONTROLLER).await.err()))
            .await
    }

    /// Runs the test of the chart, as `helm test` does.
    async fn test(&mut self, archive: &Path) -> Result<()> {
        let image = RealNode::import_on(&self.nodes, archive).await?;
        for test in self.manifest.tests(&image, self.nodes[0].address()) {
            let name = test["metadata"]["name"].as_str().unwrap_or_default();
            let name = name.to_owned();
            manifest::apply(&self.client, test).await?;
            let workload = self.workload.clone();
            self.until(&format!("the Pod {name} succeeds"), async || {
                workload.succeeded(&name).await
            })
            .await?;
            self.workload.delete(&name).await?;
        }
        Ok(())
    }

    async fn roll_out(&mut self, images: &Images, sidecar: bool) -> Result<()> {
        self.manifest.apply(&self.client, images, sidecar).await?;
        self.rolled_out().await?;
        self.nothing_is_lost().await
    }

    /// The first Service is as it was, the cloud was not asked about it, and another one is served and goes.
    async fn nothing_is_lost(&mut self) -> Result<()> {
        self.extra += 1;
        let extra = format!("{FIRST}-{}", self.extra);
        self.serve(&extra).await?;
        self.withdraw(&extra).await?;
        let now = service_named(&self.services(), FIRST).await?;
        let Some((before, calls)) = &self.served else {
            return Ok(());
        };
        if before.resource_version() != now.resource_version() {
            let (before, now) = (format!("{:?}", before.status), format!("{:?}", now.status));
            let step = "the Service that was served is not written";
            return Err(self.unfulfilled(step, format!("{now}, before {before}")));
        }
        let more = self.cloud.mentions(&now.uid().unwrap_or_default())? - calls;
        if more > 0 {
            let step = "there is no call about the Service that was served";
            return Err(self.unfulfilled(step, format!("{more} lines of the provider's journal")));
        }
        Ok(())
    }
}

impl Checked for Stage<'_> {
    fn timeout(&self) -> Duration {
        self.check.timeout
    }

    fn client(&self) -> &Client {
        &self.client
    }

    fn processes_run(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(RealNode::check)
    }

    fn log_ends(&self) -> (String, String) {
        (
            self.workload.log_end(CONTROLLER),
            self.workload.log_end(PROVIDER),
        )
    }
}

/// The taints of a Node, as a kubelet's `--register-with-taints` has them.
fn taints_of(node: &Node) -> String {
    let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    let taints = taints.map(|taint| match &taint.value {
        None => format!("{}:{}", taint.key, taint.effect),
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
    });
    taints.collect::<Vec<_>>().join(",")
}

//! A provider in any language behind the controller, on a real API server.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use kube::Client;
use tokio::task::spawn_blocking;

use crate::{
    ControlPlane, Error, Options, Passed, Result,
    check::{Checked, Steps},
    nodes::{self, Load, Machine},
    process::{Process, Scratch},
    providers::Launch,
};

const CONTROLLER: &str = "cloud-controller-manager";
const SERVICE: &str = "web";

/// A provider, and the parts of the contract that the cluster sees of it.
#[derive(Debug)]
pub struct ProviderCheck {
    /// Path of cloud-controller-manager.
    pub controller: PathBuf,
    /// Further flags of the controller.
    pub controller_args: Vec<String>,
    /// The provider.
    pub provider: Launch,
    /// Names of Nodes, each of which has an instance in the provider's cloud. The last one joins
    /// after a restart of the provider.
    pub nodes: Vec<String>,
    /// The provider serves load balancers.
    pub services: bool,
    /// The provider serves routes.
    pub routes: bool,
    /// Time limit of each step.
    pub timeout: Duration,
}

/// Components that run. Dropped in the order of the fields.
struct Stage<'a> {
    check: &'a ProviderCheck,
    controller: Process,
    /// Missing while it is killed and started again.
    provider: Option<Process>,
    cloud: Option<Process>,
    client: Client,
    scratch: Scratch,
    plane: ControlPlane,
}

impl ProviderCheck {
    /// Starts a control plane, the provider and the controller, and goes through all steps.
    ///
    /// `passed` is called after each step. Ends at the first step that fails, with
    /// [`Error::Unfulfilled`] or [`Error::Ended`], which carry the end of the logs.
    pub async fn run(&self, passed: impl FnMut(Passed)) -> Result<()> {
        let mut stage = Stage::set_up(self).await?;
        let mut steps = Steps::new(passed);
        steps.kubeconfig = stage.plane.admin_kubeconfig()?;
        let (last, first) = match self.nodes.split_last() {
            Some((last, first)) if !first.is_empty() => (Some(last), first),
            _ => (None, self.nodes.as_slice()),
        };
        for node in first {
            stage.join(node).await?;
        }
        steps.done("Nodes are initialised");
        if self.services {
            stage.serve(SERVICE).await?;
            steps.done("a Service is served");
        }
        if let Some(node) = last {
            stage.restart_provider().await?;
            stage.join(node).await?;
            steps.done("a Node joins after the provider was killed and started again");
        }
        if self.routes {
            for node in &self.nodes {
                stage.routed(node).await?;
            }
            steps.done("Nodes have their routes");
        }
        if self.services {
            stage.withdraw(SERVICE).await?;
            steps.done("a deleted Service is gone");
        }
        Ok(())
    }

    async fn start_provider(&self, scratch: &Path) -> Result<Process> {
        let (socket, log) = (socket(scratch), scratch.join("provider.log"));
        self.provider.start(&socket, log, self.timeout).await
    }
}

fn socket(scratch: &Path) -> PathBuf {
    scratch.join("provider.sock")
}

impl<'a> Stage<'a> {
    async fn set_up(check: &'a ProviderCheck) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let client = plane.client()?;
        let scratch = Scratch::new(false)?;
        let cloud = check
            .provider
            .start_cloud(scratch.path().join("cloud.log"))
            .await?;
        let provider = check.start_provider(scratch.path()).await?;
        let mut args = vec![
            format!("--kubeconfig={}", plane.admin_kubeconfig()?.display()),
            format!(
                "--provider-endpoint=unix://{}",
                socket(scratch.path()).display()
            ),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        if check.routes {
            let network = ["--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16"];
            args.extend(network.map(str::to_owned));
        }
        args.extend(check.provider.grant());
        args.extend_from_slice(&check.controller_args);
        let log = scratch.path().join("controller.log");
        let controller = Process::start(CONTROLLER, &check.controller, &args, log)?;
        Ok(Self {
            check,
            controller,
            provider: Some(provider),
            cloud,
            client,
            scratch,
            plane,
        })
    }

    /// `kill -9`, which leaves the socket behind.
    async fn restart_provider(&mut self) -> Result<()> {
        let killed = self.provider.take();
        let ended = spawn_blocking(move || drop(killed)).await;
        ended.map_err(|error| Error::io("kill the provider")(error.into()))?;
        let provider = self.check.start_provider(self.scratch.path()).await?;
        self.provider = Some(provider);
        Ok(())
    }

    /// Registers a Node as its kubelet does, and waits until it is initialised.
    async fn join(&mut self, name: &str) -> Result<()> {
        let machine = [Machine::new(name)];
        nodes::register_all(&self.client, machine, Load::default(), |_| {}).await?;
        self.initialised(name).await
    }

    async fn routed(&mut self, name: &str) -> Result<()> {
        self.node(name, "has its route", |node| {
            let conditions = node.status.as_ref()?.conditions.as_deref();
            let mut conditions = conditions.unwrap_or_default().iter();
            let network = conditions.find(|condition| condition.type_ == "NetworkUnavailable");
            match network {
                Some(network) if network.status == "False" => None,
                Some(network) => Some(format!("NetworkUnavailable: {:?}", network.message)),
                None => Some("it has no condition NetworkUnavailable".to_owned()),
            }
        })
        .await
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
        let mut all = self.provider.iter_mut().chain([&mut self.controller]);
        all.try_for_each(Process::check)?;
        self.cloud.iter_mut().try_for_each(Process::check)
    }

    fn log_ends(&self) -> (String, String) {
        let provider = self.provider.as_ref();
        (
            self.controller.log_end(),
            provider.map(Process::log_end).unwrap_or_default(),
        )
    }
}

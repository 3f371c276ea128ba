//! A provider in any language behind the controller, on a real API server: the steps of `check-provider`.
//!
//! ```text
//!  control plane ─► pair ─► Nodes ─► a Service ─► the provider is killed, one more Node ─► routes ─► the Service goes
//! ```
//!
//! The command fills [`ProviderCheck`] and prints each step that passes. Only the cluster is looked at, so that every
//! provider that keeps to the contract passes, whatever its cloud and its language.

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{Client, ResourceExt};
use tokio::process::Command;

use crate::{
    ControlPlane, Options, Passed, Result,
    check::{Checked, Steps, service_named},
    nodes::{self, Load, Machine},
    pair::Pair,
    process::{log_end, output},
    providers::Launch,
    services,
};

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
    /// Services that it serves besides, each by its file.
    pub manifests: Vec<(PathBuf, Service)>,
    /// A program that uses each of these Services, whose addresses are its arguments.
    pub client: Option<PathBuf>,
    /// The provider serves routes.
    pub routes: bool,
    /// Time limit of each step.
    pub timeout: Duration,
}

/// Components that run. Dropped in the order of the fields.
struct Stage<'a> {
    check: &'a ProviderCheck,
    pair: Pair,
    client: Client,
    plane: ControlPlane,
}

impl ProviderCheck {
    /// Starts a control plane, the provider and the controller, and goes through all steps.
    ///
    /// `passed` is called after each step. Ends at the first step that fails, with
    /// [`Unfulfilled`](crate::Error::Unfulfilled) or [`Ended`](crate::Error::Ended), which carry the end of the logs.
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
            for prefix in self.provider.effect_prefixes() {
                stage.annotated(SERVICE, prefix).await?;
                steps.done("a Service has the annotation that the provider writes");
            }
        }
        for (file, service) in &self.manifests {
            let name = service.name_any();
            let service = stage.serve_as(&name, service).await?;
            steps.done(&format!("the Service of {} is served", file.display()));
            if let Some(client) = &self.client {
                let mut command = Command::new(client);
                command.args(services::addresses(&service));
                let action = || format!("use the Service of {}", file.display());
                output("the client", &mut command, action).await?;
                steps.done(&format!("{} has used it", client.display()));
            }
            stage.withdraw(&name).await?;
        }
        if let Some(node) = last {
            let pair = &mut stage.pair;
            pair.restart_provider(&self.provider, self.timeout).await?;
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
}

impl<'a> Stage<'a> {
    async fn set_up(check: &'a ProviderCheck) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let client = plane.client()?;
        let mut args = Vec::new();
        if check.routes {
            let network = [
                "--allocate-node-cidrs",
                "--cluster-cidr=10.244.0.0/16",
                "--controllers=*,node-ipam",
            ];
            args.extend(network.map(str::to_owned));
        }
        args.extend_from_slice(&check.controller_args);
        let kubeconfig = plane.admin_kubeconfig()?;
        let (launch, controller) = (&check.provider, &check.controller);
        let pair = Pair::start(launch, controller, &kubeconfig, args, check.timeout);
        Ok(Self {
            check,
            pair: pair.await?,
            client,
            plane,
        })
    }

    /// Registers a Node as its kubelet does, and waits until it is initialised.
    async fn join(&mut self, name: &str) -> Result<()> {
        let machine = [Machine::new(name)];
        nodes::register_all(&self.client, machine, Load::default(), |_| {}).await?;
        self.initialised(name).await
    }

    /// Waits until a Service has an annotation under a prefix of the provider.
    async fn annotated(&mut self, name: &str, prefix: &str) -> Result<()> {
        let services = self.services();
        let probe = async || {
            let service = service_named(&services, name).await?;
            let mut keys = service.annotations().keys();
            let is_written = keys.any(|key| key.starts_with(prefix));
            Ok((!is_written).then(|| format!("annotations {:?}", service.annotations())))
        };
        self.until(
            &format!("the Service {name} has an annotation under {prefix}"),
            probe,
        )
        .await
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
        self.pair.check()
    }

    fn log_ends(&self) -> (String, String) {
        let provider = log_end(&self.pair.provider_log());
        (self.pair.controller.log_end(), provider)
    }
}

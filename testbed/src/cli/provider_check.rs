//! `check-provider`, and `outrigger-testbed check-provider` for the providers of this repository: the flags of
//! [`crate::provider_check`], and its output.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Parser};
use k8s_openapi::api::core::v1::Service;

use super::{PassedSteps, duration, note};
use crate::{
    Error, Result,
    binaries::of_this_project,
    provider_check::ProviderCheck,
    providers::{self, Launch, Provider},
};

/// Runs a provider, in any language, behind Outrigger's controller on an etcd and a kube-apiserver of its own: Nodes are
/// initialised, a Service is served and deleted, routes are made, and the provider is killed on the way.
///
/// etcd and kube-apiserver are those of `KUBEBUILDER_ASSETS`, else those that setup-envtest has installed, else the archive
/// that is published for envtest, which is downloaded once.
#[derive(Debug, Parser)]
#[command(name = "check-provider", version, max_term_width = 100)]
pub struct CheckProvider {
    #[command(flatten)]
    check: Check,
    /// The provider serves routes: check them too.
    #[arg(long)]
    routes: bool,
    /// Command that starts the provider, at `CLOUDPROVIDER_ENDPOINT`. `{kubeconfig}` in it is replaced by the path of an
    /// administrator's kubeconfig, for a provider with rights of its own.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct CheckOwnProvider {
    /// A provider of this repository: it is built first, and checked in all that it serves.
    #[arg(long, value_name = "NAME", value_parser = providers::by_name)]
    provider: &'static Provider,
    #[command(flatten)]
    check: Check,
}

#[derive(Debug, Args)]
struct Check {
    /// The controller [default: cloud-controller-manager beside this program, else on the PATH]
    #[arg(long, value_name = "FILE")]
    controller: Option<PathBuf>,
    /// A further flag of the controller; can be repeated.
    #[arg(
        long = "controller-arg",
        value_name = "FLAG",
        allow_hyphen_values = true
    )]
    controller_args: Vec<String>,
    /// Name of a Node that has an instance in the provider's cloud; can be repeated. The last of
    /// several joins after the provider was killed and started again. [default: node-1 and node-2; of a provider of this
    /// repository two of its machines]
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// The provider serves no load balancers.
    #[arg(long)]
    without_services: bool,
    /// Manifest of a Service that the provider serves besides, such as one with options; can be repeated.
    #[arg(long = "service", value_name = "FILE")]
    services: Vec<PathBuf>,
    /// Program that uses the Service of each manifest, with its addresses as arguments, while it is served: clients that send
    /// packets. It has to succeed.
    #[arg(long, value_name = "FILE", requires = "services")]
    client: Option<PathBuf>,
    /// Time limit of each step.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    timeout: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl CheckProvider {
    /// Starts everything, goes through all steps, and ends what it has started.
    ///
    /// # Errors
    ///
    /// A program is missing, or a step failed: the text has the end of both logs.
    pub async fn run(mut self) -> Result<()> {
        let nodes = self.check.nodes(&["node-1", "node-2"]);
        let launch = Launch::of_command(self.command);
        self.check.run(launch, nodes, self.routes).await
    }
}

impl CheckOwnProvider {
    pub(super) async fn run(mut self) -> Result<()> {
        let provider = self.provider;
        self.check.without_services |= provider.without_services;
        let nodes = self.check.nodes(&provider.machines("node-", 2));
        provider.build(note).await?;
        let programs = of_this_project("provider-mock")?;
        let programs = programs.parent().unwrap_or(Path::new("."));
        let launch = provider.launch(programs, &nodes)?;
        let root = providers::source_tree()?;
        let manifests = provider.services.iter().map(|file| root.join(file));
        self.check.services.extend(manifests);
        self.check.run(launch, nodes, provider.routes).await
    }
}

/// The Service in a file.
fn manifest(file: PathBuf) -> Result<(PathBuf, Service)> {
    let failed = |source| Error::io(format!("read the Service of {}", file.display()))(source);
    let text = fs::read_to_string(&file).map_err(failed)?;
    let service = serde_saphyr::from_str(&text);
    let service = service.map_err(|error| failed(io::Error::other(error.to_string())))?;
    Ok((file, service))
}

impl Check {
    fn nodes(&mut self, otherwise: &[impl AsRef<str>]) -> Vec<String> {
        let given = std::mem::take(&mut self.nodes);
        if !given.is_empty() {
            return given;
        }
        let names = otherwise.iter().map(|name| name.as_ref().to_owned());
        names.collect()
    }

    async fn run(self, provider: Launch, nodes: Vec<String>, routes: bool) -> Result<()> {
        let controller = match self.controller {
            Some(path) => path,
            None => of_this_project("cloud-controller-manager")?,
        };
        let manifests = self.services.into_iter().map(manifest);
        let check = ProviderCheck {
            controller,
            controller_args: self.controller_args,
            provider,
            nodes,
            services: !self.without_services,
            manifests: manifests.collect::<Result<_>>()?,
            client: self.client,
            routes,
            timeout: self.timeout,
        };
        let mut steps = PassedSteps::default();
        check.run(|passed| steps.note(&passed)).await?;
        steps.print(self.json, "the controller works with this provider")
    }
}

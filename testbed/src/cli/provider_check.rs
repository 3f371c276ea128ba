//! `outrigger-testbed check-provider`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;

use super::{PassedSteps, duration, note};
use crate::{
    Result,
    binaries::beside,
    provider_check::ProviderCheck,
    providers::{self, Launch, Provider},
};

#[derive(Debug, Args)]
pub(super) struct CheckProvider {
    /// The controller; without it, cloud-controller-manager beside this program.
    #[arg(long, value_name = "FILE")]
    controller: Option<PathBuf>,
    /// A further flag of the controller; can be repeated.
    #[arg(
        long = "controller-arg",
        value_name = "FLAG",
        allow_hyphen_values = true
    )]
    controller_args: Vec<String>,
    /// A provider of this repository: it is built first, and checked in all that it serves.
    #[arg(long, value_name = "NAME", value_parser = providers::by_name)]
    provider: Option<&'static Provider>,
    /// Name of a Node that has an instance in the provider's cloud; can be repeated. The last of
    /// several joins after the provider was killed and started again.
    /// [default: two machines of the provider of --provider, else node-1 and node-2]
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// The provider serves no load balancers.
    #[arg(long)]
    without_services: bool,
    /// The provider serves routes: check them too.
    #[arg(long, conflicts_with = "provider")]
    routes: bool,
    /// Time limit of each step.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    timeout: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Command that starts the provider, at `CLOUDPROVIDER_ENDPOINT`. `{kubeconfig}` in it is replaced by the path of an
    /// administrator's kubeconfig, for a provider with rights of its own.
    #[arg(
        last = true,
        required_unless_present = "provider",
        conflicts_with = "provider",
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

impl CheckProvider {
    pub(super) async fn run(self) -> Result<()> {
        let controller = match self.controller {
            Some(path) => path,
            None => beside("cloud-controller-manager")?,
        };
        let nodes = match (self.nodes, self.provider) {
            (given, _) if !given.is_empty() => given,
            (_, Some(provider)) => provider.machines("node-", 2),
            (_, None) => ["node-1", "node-2"].map(str::to_owned).to_vec(),
        };
        let (provider, routes) = match self.provider {
            None => (Launch::of_command(self.command), self.routes),
            Some(provider) => {
                provider.build(note).await?;
                let programs = beside("provider-mock")?;
                let programs = programs.parent().unwrap_or(Path::new("."));
                (provider.launch(programs, &nodes)?, provider.routes)
            }
        };
        let check = ProviderCheck {
            controller,
            controller_args: self.controller_args,
            provider,
            nodes,
            services: !self.without_services,
            routes,
            timeout: self.timeout,
        };
        let mut steps = PassedSteps::default();
        check.run(|passed| steps.note(&passed)).await?;
        steps.print(self.json, "the controller works with this provider")
    }
}

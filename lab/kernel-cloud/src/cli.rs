//! The command line.

mod cleanup;
mod cloud;
mod serve;

use clap::{Args, Parser, Subcommand};
use outrigger_provider_linux::cloud::Cloud;
use outrigger_provider_linux::kernel;
use outrigger_provider_sdk::{BoxError, ProbeArgs};

/// The Linux kernel as a cloud for Outrigger: load balancers, routes, and machines that are network namespaces.
#[derive(Debug, Parser)]
#[command(name = "provider-linux", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve load balancers and routes, and the machines of a cloud as instances
    Serve(serve::Serve),
    /// Ask a running provider how it is, for exec probes
    Probe(ProbeArgs),
    /// Remove everything that is marked with the UID of a cluster
    Cleanup(cleanup::CleanUp),
    /// Make, change and remove a cloud of network namespaces on this host
    Cloud {
        #[command(subcommand)]
        command: cloud::CloudCommand,
    },
}

/// Where packets are balanced and routed.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// In the router of this cloud
    #[arg(long, value_name = "NAME")]
    cloud: Option<String>,

    /// In this network namespace, or on this host itself: `host`
    #[arg(long, value_name = "NAME|host")]
    namespace: Option<String>,
}

impl Place {
    /// Moves the process there, and returns its cloud.
    fn enter(&self) -> Result<Option<Cloud>, BoxError> {
        if let Some(name) = &self.cloud {
            let cloud = Cloud::named(name)?;
            kernel::enter(&cloud.router())?;
            return Ok(Some(cloud));
        }
        match self.namespace.as_deref() {
            None | Some("host") => {}
            Some(name) => kernel::enter(name)?,
        }
        Ok(None)
    }
}

impl Cli {
    pub(crate) fn run(self) -> Result<(), BoxError> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Cleanup(clean_up) => clean_up.run(),
            Command::Cloud { command } => runtime()?.block_on(command.run()),
            Command::Probe(probe) => {
                println!("{}", runtime()?.block_on(probe.probe())?);
                Ok(())
            }
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

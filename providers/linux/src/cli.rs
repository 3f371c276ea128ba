//! The command line.

mod cloud;

use clap::{Parser, Subcommand};
use outrigger_provider_sdk::BoxError;

/// The Linux kernel as a cloud for Outrigger: load balancers, routes, and machines that are network namespaces.
#[derive(Debug, Parser)]
#[command(name = "provider-linux", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make, change and remove a cloud of network namespaces on this host
    Cloud {
        #[command(subcommand)]
        command: cloud::CloudCommand,
    },
}

impl Cli {
    pub(crate) fn run(self) -> Result<(), BoxError> {
        match self.command {
            Command::Cloud { command } => runtime()?.block_on(command.run()),
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

//! The command line.

pub(crate) mod ctl;
mod fault;
pub(crate) mod serve;

use clap::{Args, Parser, Subcommand};
use outrigger_provider_mock::control::{CONTROL_ENDPOINT_ENV, control_endpoint};
use outrigger_provider_sdk::{Endpoint, EndpointArgs, InvalidEndpoint, ProbeArgs};

/// A fake cloud behind Outrigger's contract: play with it, break it, watch what the controller does.
#[derive(Debug, Parser)]
#[command(name = "provider-mock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the fake cloud as a provider
    Serve(Box<serve::ServeCommand>),
    /// Change the cloud of a running mock, break it, read its counters
    Ctl(Box<ctl::CtlCommand>),
    #[cfg(feature = "defects")]
    /// List the mistakes that `serve --defect` can make, a line each
    Defects,
    /// Ask a running provider how it is, for exec probes
    Probe(ProbeArgs),
}

/// Both sockets of a mock.
#[derive(Debug, Args)]
struct SocketArgs {
    #[command(flatten)]
    provider: EndpointArgs,

    /// Socket on which the mock is controlled; by default the endpoint with .ctl at its end
    #[arg(long, env = CONTROL_ENDPOINT_ENV, value_name = "ENDPOINT", global = true)]
    control_endpoint: Option<Endpoint>,
}

impl SocketArgs {
    fn control(&self) -> Result<Endpoint, InvalidEndpoint> {
        match &self.control_endpoint {
            Some(endpoint) => Ok(endpoint.clone()),
            None => control_endpoint(&self.provider.endpoint),
        }
    }
}

#[cfg(test)]
mod tests;

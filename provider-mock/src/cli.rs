//! The command line.

pub(crate) mod ctl;
pub(crate) mod serve;
mod show;
mod values;

use clap::{Parser, Subcommand};
use outrigger_provider_sdk::ProbeArgs;

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
    /// Ask a running provider how it is, for exec probes
    Probe(ProbeArgs),
}

#[cfg(test)]
mod tests;

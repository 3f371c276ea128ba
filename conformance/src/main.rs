//! `provider-conformance`: holds a provider against the contract.

use std::process::ExitCode;

use clap::Parser as _;
use outrigger_conformance::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("provider-conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

//! A real control plane on the command line; see `outrigger-testbed --help`.

use std::process::ExitCode;

use clap::Parser;
use outrigger_testbed::cli::{self, Cli};

#[tokio::main]
async fn main() -> ExitCode {
    match cli::run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

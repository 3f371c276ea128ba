//! Clusters with real kubelets; see `outrigger-lab --help`.

use std::process::ExitCode;

use clap::Parser;
use outrigger_lab::cli::{self, Cli};

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

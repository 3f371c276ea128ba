//! A provider in any language behind the controller, on a real API server; see `check-provider --help`, and
//! [`outrigger_testbed::provider_check`] for its steps.

use std::process::ExitCode;

use clap::Parser;
use outrigger_testbed::cli::CheckProvider;

#[tokio::main]
async fn main() -> ExitCode {
    match CheckProvider::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("check-provider: {error}");
            ExitCode::FAILURE
        }
    }
}

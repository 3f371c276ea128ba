//! `provider-linux`: serves the kernel of this host as a cloud, and makes clouds of network namespaces.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provider-linux: {error}");
            ExitCode::FAILURE
        }
    }
}

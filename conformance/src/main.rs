//! `provider-conformance`: holds a provider against the contract.

use std::process::ExitCode;

use clap::Parser as _;
use outrigger_conformance::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(cli.run());
    runtime.shutdown_background();
    match ended {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("provider-conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

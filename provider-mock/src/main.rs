//! `provider-mock`: a fake cloud behind Outrigger's contract, and the command that plays with it.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

pub(crate) fn main() -> ExitCode {
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
    let ended = match cli.command {
        Command::Serve(args) => {
            outrigger_provider_sdk::init_logging();
            runtime.block_on(cli::serve::run(*args))
        }
        Command::Ctl(args) => runtime.block_on(cli::ctl::run(*args)),
        #[cfg(feature = "defects")]
        Command::Defects => cli::defects::run(),
        Command::Probe(args) => runtime
            .block_on(args.probe())
            .map(|sentence| println!("{sentence}"))
            .map_err(Into::into),
    };
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provider-mock: {error}");
            ExitCode::FAILURE
        }
    }
}

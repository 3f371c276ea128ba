//! `provider-mock`: a fake cloud behind Outrigger's contract, and the command that plays with it.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};

#[tokio::main]
pub(crate) async fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Serve(args) => {
            outrigger_provider_sdk::init_logging();
            cli::serve::run(*args).await
        }
        Command::Ctl(args) => cli::ctl::run(*args).await,
        #[cfg(feature = "defects")]
        Command::Defects => {
            for one in outrigger_provider_mock::defects::all() {
                let (name, cases, sentence) = (one.name, one.cases.join(" "), one.sentence);
                println!("{name}\t{cases}\t{sentence}");
            }
            Ok(())
        }
        Command::Probe(args) => {
            let probed = args.probe().await;
            probed
                .map(|sentence| println!("{sentence}"))
                .map_err(Into::into)
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provider-mock: {error}");
            ExitCode::FAILURE
        }
    }
}

//! `cargo demo`: nodes being initialised, on a real API server; see `--help`.

use std::process::ExitCode;

use clap::Parser;
use outrigger_testbed::demo::{self, Demo};

#[tokio::main]
async fn main() -> ExitCode {
    match demo::run(Demo::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

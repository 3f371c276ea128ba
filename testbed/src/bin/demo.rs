//! `cargo demo`: Nodes with routes and reachable Services, on a real API server; see `--help`, and
//! [`outrigger_testbed::demo`].

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

//! `cloud-controller-manager`; see `--help`, and the library for what it does.

use std::process::ExitCode;

use outrigger_controller::{app, options, telemetry::Telemetry};
use tracing::{error, info};

fn main() -> ExitCode {
    let config = match options::parse_from_env() {
        Ok(config) => config,
        Err(code) => return code,
    };
    let telemetry = match Telemetry::install(&config.logging) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            eprintln!("Error: cannot log: {error}");
            return ExitCode::FAILURE;
        }
    };
    config.log();
    info!(version = options::VERSION, "cloud-controller-manager");
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(app::run(config, telemetry)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            error!("command failed: {fatal}");
            ExitCode::from(fatal.exit_code())
        }
    }
}

//! `cloud-controller-manager`; see `--help`, and the library for what it does.

use std::process::ExitCode;

use outrigger_controller::{app, options, runtime::run_to_end, telemetry::Telemetry};
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
    match run_to_end(app::run(config, telemetry)) {
        Err(error) => {
            error!("cannot start: {error}");
            ExitCode::FAILURE
        }
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(fatal)) => {
            error!("command failed: {fatal}");
            ExitCode::from(fatal.exit_code())
        }
    }
}

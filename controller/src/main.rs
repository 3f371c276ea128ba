//! `cloud-controller-manager`; see `--help`, and the library for what it does.

use std::{io, process::ExitCode};

use outrigger_controller::{
    app::{self, Surroundings},
    command, options,
};
use outrigger_runtime::{VERSION, telemetry::Telemetry};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{error, info, warn};

fn main() -> ExitCode {
    if let Some(code) = command::run_from_env() {
        return code;
    }
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
    info!(version = VERSION, "cloud-controller-manager");
    if let Err(error) = raise_open_files() {
        warn!(%error, "the limit of open files stays as it is");
    }
    let run = async {
        let surroundings = Surroundings::of(&config, telemetry)?;
        Box::pin(app::run(config, surroundings)).await
    };
    match command::run_to_end(run) {
        Err(error) => {
            error!(%error, "cannot start");
            ExitCode::FAILURE
        }
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(fatal)) => {
            error!(error = %fatal, "command failed");
            ExitCode::from(fatal.exit_code())
        }
    }
}

/// Raises the soft limit to the hard one, as Go does at the start of each program: the soft one is 1,024 where
/// systemd starts the container runtime, for programs that call select(2), and this one does not. Returns what it
/// is then; none: no limit.
///
/// # Errors
/// If the kernel does not take it: the limit stays as it was.
fn raise_open_files() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(limit.maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let before = getrlimit(Resource::Nofile);
        let low = Rlimit {
            current: Some(before.maximum.map_or(4096, |most| most.min(4096) - 1)),
            maximum: before.maximum,
        };
        setrlimit(Resource::Nofile, low).unwrap();
        assert_eq!(raise_open_files().unwrap(), before.maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}

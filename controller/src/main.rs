//! `cloud-controller-manager`; see `--help`, and the library for what it does.

use std::{io, process::ExitCode};

use outrigger_controller::{
    app::{self, Surroundings},
    command, open_files, options,
};
use outrigger_runtime::{VERSION, telemetry::Telemetry};
use tokio::runtime::Runtime;
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
    if let Err(error) = open_files::raise_limit() {
        warn!(%error, "the limit of open files stays as it is");
    }
    let run = async {
        let surroundings = Surroundings::of(&config, telemetry)?;
        Box::pin(app::run(config, surroundings)).await
    };
    match run_to_end(run) {
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

/// Runs `work` to its end on a runtime of its own. Blocking work that it leaves behind does not delay
/// the return: a name that no DNS server resolves keeps a thread in `getaddrinfo` for many seconds.
///
/// # Errors
/// If no runtime can be made: out of threads or file descriptors.
fn run_to_end<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = Runtime::new()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn blocking_work_that_is_left_behind_does_not_delay_the_end() {
        let (release, released) = mpsc::channel::<()>();
        let ended = run_to_end(async {
            drop(tokio::task::spawn_blocking(move || {
                let _ = released.recv_timeout(Duration::from_secs(20));
            }));
            7
        });
        assert_eq!(ended.unwrap(), 7);
        assert!(release.send(()).is_ok(), "the blocking work was waited for");
    }
}

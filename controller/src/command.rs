//! The commands beside the controller manager itself: `check`, `explain` and `sweep`.

mod check;
mod explain;
mod sweep;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use comfy_table::{Table, presets};
use outrigger_core::text;
use outrigger_kube::{
    api::Api,
    client::{ApiServer, Budget, Clients},
    metrics::ClientMetrics,
};
use outrigger_provider::{Options, Provider, ProviderMetrics, ProviderSocket};
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::{explain::ExplainCommand, sweep::SweepCommand};

/// Runs the command that the process was started with, if its first word is one. A command line that cannot be read ends the
/// process with the exit code 2.
pub fn run_from_env() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    let ended = match words.next()?.to_str()? {
        "check" => check::run(),
        "explain" => ExplainCommand::parse_from(words).run(),
        "sweep" => SweepCommand::parse_from(words).run(),
        _ => return None,
    };
    Some(ended.unwrap_or_else(|refusal| {
        // A closed stream is no reason to behave otherwise.
        let _ = writeln!(io::stderr(), "Error: {}", escaped(&refusal));
        ExitCode::from(UNUSABLE)
    }))
}

/// Lines in which nothing moves a cursor: servers and providers have words in them.
fn escaped(refusal: &str) -> String {
    let lines: Vec<_> = refusal.lines().map(text::message).collect();
    lines.join("\n")
}

/// Exit code of a command that could not do its work.
const UNUSABLE: u8 = 2;

/// Runs `work` to its end on a runtime of its own. Blocking work that it leaves behind does not delay
/// the return: a name that no DNS server resolves keeps a thread in `getaddrinfo` for many seconds.
///
/// # Errors
/// If no runtime can be made: out of threads or file descriptors.
pub fn run_to_end<F: Future>(work: F) -> Result<F::Output, String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(ended)
}

/// Requests of the command `name` to `server`.
async fn api(server: ApiServer, name: &str) -> Result<Api, String> {
    let clients = Clients::new(server, ClientMetrics::default()).await;
    let clients = clients.map_err(|error| error.to_string())?;
    Ok(Api::new(clients.build(name, Budget::UNLIMITED)))
}

/// The provider behind `socket`.
#[expect(
    clippy::disallowed_methods,
    reason = "the command ends with the runtime, and the connection with it"
)]
fn connect(options: Options, socket: ProviderSocket) -> Provider {
    let metrics = ProviderMetrics::register(&mut Registry::default());
    let stop = CancellationToken::new();
    let (provider, connection) = Provider::new(options, Box::new(socket), metrics, stop);
    tokio::spawn(connection);
    provider
}

/// A table with this heading.
pub(crate) fn new_table<const N: usize>(heading: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heading);
    table
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::run_to_end;

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

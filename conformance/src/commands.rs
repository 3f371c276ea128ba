//! Processes of the suite: the provider under test, and commands that act on its cloud.

use std::{
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use outrigger_api::ENDPOINT_ENV;
use outrigger_provider_sdk::Endpoint;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    net::UnixStream,
    process::{Child, Command},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{inputs::Process, log::Log};

/// For a command that acts on the cloud.
const COMMAND: Duration = Duration::from_mins(1);
/// For the last lines of a process that has ended.
const REST_OF_LOG: Duration = Duration::from_secs(1);
/// Between two tries to connect to a provider that starts.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// A provider that the suite has started. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Provider {
    child: Child,
    reading: JoinSet<()>,
}

impl Provider {
    fn spawn(process: &Process, endpoint: &Endpoint, log: &Arc<Log>) -> Result<Self, String> {
        let (program, arguments) = process
            .command
            .split_first()
            .ok_or("the inputs have no provider.command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .envs(&process.env)
            .env(ENDPOINT_ENV, endpoint.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {program:?}: {error}"))?;
        let reading = log.follow(&mut child);
        Ok(Self { child, reading })
    }

    /// Starts it and waits until its socket accepts connections.
    pub(crate) async fn start(
        process: &Process,
        endpoint: &Endpoint,
        log: &Arc<Log>,
        limit: Duration,
    ) -> Result<Self, String> {
        let mut provider = Self::spawn(process, endpoint, log)?;
        let started = Instant::now();
        while UnixStream::connect(endpoint.path()).await.is_err() {
            if let Some(ended) = provider.ended() {
                return Err(format!("the provider ended before it listened: {ended}"));
            }
            if started.elapsed() > limit {
                return Err(format!(
                    "the provider does not listen at {endpoint} within {limit:?}"
                ));
            }
            sleep(TRY_AGAIN).await;
        }
        Ok(provider)
    }

    /// Starts it and waits for its end, which an error makes at once; none within the limit.
    pub(crate) async fn run(
        process: &Process,
        endpoint: &Endpoint,
        log: &Arc<Log>,
        limit: Duration,
    ) -> Result<Option<ExitStatus>, String> {
        let mut provider = Self::spawn(process, endpoint, log)?;
        let Ok(ended) = timeout(limit, provider.child.wait()).await else {
            provider.kill().await?;
            return Ok(None);
        };
        provider.read_on().await;
        ended.map(Some).map_err(|error| error.to_string())
    }

    /// Reads the rest of its log, unless a process that it has started holds it open.
    async fn read_on(&mut self) {
        let read = async { while self.reading.join_next().await.is_some() {} };
        let _ = timeout(REST_OF_LOG, read).await;
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// SIGKILL, and waits for the end.
    pub(crate) async fn kill(&mut self) -> Result<(), String> {
        let killed = self.child.kill().await;
        self.read_on().await;
        killed.map_err(|error| format!("cannot kill the provider: {error}"))
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) -> Result<(), String> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        let id = id.ok_or("the provider has ended already")?;
        kill_process(id, Signal::TERM)
            .map_err(|error| format!("cannot signal the provider: {error}"))
    }

    /// Waits for the end, and gives its status; none within the limit.
    pub(crate) async fn wait(&mut self, limit: Duration) -> Option<io::Result<ExitStatus>> {
        let ended = timeout(limit, self.child.wait()).await.ok()?;
        self.read_on().await;
        Some(ended)
    }
}

/// Runs a command to its end; its standard output.
pub(crate) async fn run(command: &[String], endpoint: &Endpoint) -> Result<String, String> {
    let (program, arguments) = command.split_first().ok_or("the command is empty")?;
    let output = Command::new(program)
        .args(arguments)
        .env(ENDPOINT_ENV, endpoint.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(COMMAND, output)
        .await
        .map_err(|_elapsed| format!("{program:?} took longer than {COMMAND:?}"))?
        .map_err(|error| format!("cannot run {program:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{program:?} failed ({}): {}",
            output.status,
            why.trim()
        ))
    }
}

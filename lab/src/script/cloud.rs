//! The cloud of a script: `provider-mock`, and its control command.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use outrigger_testbed::{
    Error, Result,
    process::{Process, output},
};
use serde::Deserialize;
use tokio::process::Command;

/// A running mock. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Cloud {
    program: PathBuf,
    socket: PathBuf,
    pub(crate) mock: Process,
}

impl Cloud {
    /// Starts `provider-mock serve` with these flags besides; its files are in `dir`.
    pub(crate) async fn start(program: &Path, dir: &Path, flags: &[String]) -> Result<Self> {
        const DEADLINE: Duration = Duration::from_mins(1);
        let socket = dir.join("provider.sock");
        let mut args = vec!["serve".to_owned(), endpoint("--endpoint=", &socket)];
        args.extend_from_slice(flags);
        let mut mock = Process::start("provider-mock", program, &args, dir.join("provider.log"))?;
        mock.listens(&socket, DEADLINE).await?;
        Ok(Self {
            program: program.to_owned(),
            socket,
            mock,
        })
    }

    /// Where it serves.
    pub(crate) fn endpoint(&self) -> String {
        endpoint("", &self.socket)
    }

    /// Runs `provider-mock ctl` with these words, and returns its answer.
    pub(crate) async fn control(&self, words: &[impl AsRef<str>]) -> Result<String> {
        let words = words.iter().map(AsRef::as_ref);
        let mut command = Command::new(&self.program);
        command.args(["ctl", "--endpoint", &self.endpoint()]);
        command.args(words.clone());
        let action = || format!("ctl {}", words.collect::<Vec<_>>().join(" "));
        output("provider-mock", &mut command, action).await
    }

    /// [`Self::control`], with its answer read.
    pub(crate) async fn ask<T: for<'de> Deserialize<'de>>(&self, words: &[&str]) -> Result<T> {
        let answer = self.control(words).await?;
        let failed = Error::io("read the answer of provider-mock ctl");
        serde_json::from_str(&answer).map_err(|error| failed(error.into()))
    }
}

fn endpoint(prefix: &str, socket: &Path) -> String {
    format!("{prefix}unix://{}", socket.display())
}

//! A provider and the controller in front of it, as processes.
//!
//! The demo and the checks start a [`Pair`] against a control plane of theirs; the provider is reached at a socket in a
//! directory that goes with the pair. There is no election, so that the controller acts at once.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::task::spawn_blocking;

use crate::{
    Error, Result,
    process::{Process, Scratch},
    providers::Launch,
};

/// Both run, with the provider's cloud. Dropped in the order of the fields: the controller misses none of the others.
#[derive(Debug)]
pub struct Pair {
    /// The controller.
    pub controller: Process,
    /// Missing while it is killed and started again.
    provider: Option<Process>,
    cloud: Option<Process>,
    kubeconfig: PathBuf,
    scratch: Scratch,
}

impl Pair {
    /// Starts the provider, waits until it listens, and starts the controller with `args` besides those that every
    /// pair needs. `deadline` is the provider's.
    pub async fn start(
        launch: &Launch,
        controller: &Path,
        kubeconfig: &Path,
        args: impl IntoIterator<Item = String>,
        deadline: Duration,
    ) -> Result<Self> {
        let scratch = Scratch::new(false)?;
        let dir = scratch.path();
        let cloud = launch.start_cloud(dir.join("cloud.log")).await?;
        let provider = launch
            .start(&socket(dir), provider_log(dir), kubeconfig, deadline)
            .await?;
        let mut all = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--provider-endpoint={}", endpoint(dir)),
            // No election, and no port that another process may have bound.
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        all.extend(launch.grant());
        all.extend(args);
        let log = dir.join("cloud-controller-manager.log");
        Ok(Self {
            controller: Process::start("cloud-controller-manager", controller, &all, log)?,
            provider: Some(provider),
            cloud,
            kubeconfig: kubeconfig.to_owned(),
            scratch,
        })
    }

    /// Kills the provider as `kill -9` does, which leaves the socket there, and starts it again.
    pub async fn restart_provider(&mut self, launch: &Launch, deadline: Duration) -> Result<()> {
        let killed = self.provider.take();
        let ended = spawn_blocking(move || drop(killed)).await;
        ended.map_err(|error| Error::io("kill the provider")(error.into()))?;
        let (socket, log) = (socket(self.scratch.path()), self.provider_log());
        let started = launch.start(&socket, log, &self.kubeconfig, deadline);
        self.provider = Some(started.await?);
        Ok(())
    }

    /// An error if a process has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        // The controller last: it may end for want of the others.
        let others = self.cloud.iter_mut().chain(&mut self.provider);
        others
            .chain([&mut self.controller])
            .try_for_each(Process::check)
    }

    /// Ends all and removes their files.
    pub async fn end(self) -> Result<()> {
        let ended = spawn_blocking(move || drop(self)).await;
        ended.map_err(|error| Error::io("end controller and provider")(error.into()))
    }

    /// Where the provider listens.
    pub fn endpoint(&self) -> String {
        endpoint(self.scratch.path())
    }

    /// The log of the provider.
    pub fn provider_log(&self) -> PathBuf {
        provider_log(self.scratch.path())
    }
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("provider.sock")
}

fn endpoint(dir: &Path) -> String {
    format!("unix://{}", socket(dir).display())
}

fn provider_log(dir: &Path) -> PathBuf {
    dir.join("provider.log")
}

//! The end and the start of a provider that is a process of the suite.

use std::{process::ExitStatus, time::Duration};

use tokio::net::UnixStream;

use super::{Subject, Suite};
use crate::{
    commands::Provider,
    inputs::limit,
    verdict::{Failure, Required as _, Verdict, failed},
};

/// How long a process that ends takes to close its sockets, and how long to end after that.
const CLOSES: Duration = Duration::from_millis(50);
const ENDS: Duration = Duration::from_secs(5);

impl Suite {
    /// Starts the provider; for one that the suite has not started, does nothing.
    pub(crate) async fn start(&self) -> Result<(), String> {
        let process = &self.inputs.provider;
        if process.command.is_empty() {
            return Ok(());
        }
        let within = limit(self.inputs.limits.start);
        let started = Provider::start(process, &self.endpoint, &self.log, within).await?;
        *self.provider.lock().await = Some(started);
        Ok(())
    }

    /// How the provider ended, if it was a process of the suite and did.
    pub(crate) async fn ended(&self) -> Option<String> {
        self.provider
            .lock()
            .await
            .as_mut()
            .and_then(Provider::ended)
    }

    /// Waits for the end of a process that is about to end: its connections break before that.
    async fn await_end(&self) {
        let mut provider = self.provider.lock().await;
        if let Some(provider) = provider.as_mut()
            && provider.wait(CLOSES).await.is_none()
            && UnixStream::connect(self.endpoint.path()).await.is_err()
        {
            provider.wait(ENDS).await;
        }
    }

    /// The end of the provider: of a process of the suite its status, else that nothing listens any more. `has_failed`
    /// says that something failed just now.
    pub(crate) async fn end(&self, has_failed: bool) -> Option<Failure> {
        let actual = if self.inputs.provider.command.is_empty() {
            let error = UnixStream::connect(self.endpoint.path()).await.err()?;
            format!("nothing listens at {}: {error}", self.endpoint)
        } else {
            if has_failed {
                self.await_end().await;
            }
            format!("its process ended: {}", self.ended().await?)
        };
        let expected = "the provider runs on".to_owned();
        Some(Failure { expected, actual })
    }
}

impl Subject {
    /// Ends the provider with SIGKILL. It leaves its socket behind.
    pub async fn kill(&self) -> Verdict {
        let mut provider = self.suite.provider.lock().await;
        let provider = provider.as_mut().ok_or("it is not running");
        let killed = match provider {
            Ok(provider) => provider.kill().await,
            Err(error) => Err(error.to_owned()),
        };
        killed.required("the provider can be killed")
    }

    /// Starts the provider again, after it has ended.
    pub async fn start(&self) -> Verdict {
        let started = self.suite.start().await;
        started.required("the provider starts again")
    }

    /// Starts a second process beside the provider; how it ended, or none if it had to be killed.
    pub async fn start_second(&self) -> Verdict<Option<ExitStatus>> {
        let Suite {
            inputs,
            endpoint,
            log,
            ..
        } = &*self.suite;
        let within = limit(inputs.limits.start);
        let second = Provider::run(&inputs.provider, endpoint, log, within).await;
        second.required("a second process of the provider can be started")
    }

    /// Ends the provider with SIGKILL and starts it again.
    pub async fn restart(&self) -> Verdict {
        self.kill().await?;
        self.start().await
    }

    /// Sends SIGTERM.
    pub async fn terminate(&self) -> Verdict {
        let provider = self.suite.provider.lock().await;
        let sent = match provider.as_ref() {
            Some(provider) => provider.terminate(),
            None => Err("it is not running".to_owned()),
        };
        sent.required("the provider takes SIGTERM")
    }

    /// Waits for the end of the provider; how it ended.
    pub async fn wait_for_end(&self, limit: Duration) -> Verdict<ExitStatus> {
        let mut provider = self.suite.provider.lock().await;
        let expected = || format!("the provider ends within {limit:?}");
        let ended = match provider.as_mut() {
            Some(provider) => provider.wait(limit).await,
            None => None,
        };
        let ended = ended.ok_or_else(|| failed(expected(), "it runs on"))?;
        ended.required(expected())
    }
}

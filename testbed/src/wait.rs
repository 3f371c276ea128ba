//! Waiting for a state of the cluster, while the processes that are to bring it about run.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Error, Result};

/// A check with a controller and a provider.
pub(crate) trait Waits {
    /// Time limit of each step.
    fn timeout(&self) -> Duration;

    /// Fails if a process has ended that is to run.
    fn processes_run(&mut self) -> Result<()>;

    /// The ends of the logs of controller and provider.
    fn log_ends(&self) -> (String, String);

    /// Waits until `lacks` finds nothing.
    async fn until(
        &mut self,
        step: &str,
        mut lacks: impl AsyncFnMut() -> Result<Option<String>>,
    ) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(50);
        let end = Instant::now() + self.timeout();
        loop {
            self.processes_run()?;
            let Some(observed) = lacks().await? else {
                return Ok(());
            };
            if Instant::now() > end {
                return Err(self.unfulfilled(step, observed));
            }
            sleep(EVERY).await;
        }
    }

    /// That `step` has not been reached, and what was seen instead.
    fn unfulfilled(&self, step: &str, observed: String) -> Error {
        let (controller, provider) = self.log_ends();
        Error::Unfulfilled {
            step: step.to_owned(),
            timeout: self.timeout(),
            observed,
            controller,
            provider,
        }
    }
}

//! The handlers that run: `calls` adds each, `drain` waits for them and then cancels them.
//!
//! A handler whose caller is gone counts until it has returned: a process that ended before would leave half a change in
//! the cloud.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Every handler that runs, and whether more may start.
#[derive(Default)]
pub(super) struct Running {
    pub(super) tasks: TaskTracker,
    draining: CancellationToken,
    /// Parent of every call's cancellation.
    pub(super) stop: CancellationToken,
}

impl Running {
    pub(super) fn draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves when no call is accepted any more.
    pub(super) async fn drain_began(&self) {
        self.draining.cancelled().await;
    }

    /// Refuses new calls from now on and waits for the running ones: `patience` for them to end by
    /// themselves, `grace` more once they are cancelled. `Err` is the number of those that still
    /// run.
    pub(super) async fn drain(&self, patience: Duration, grace: Duration) -> Result<(), usize> {
        self.draining.cancel();
        self.tasks.close();
        if timeout(patience, self.tasks.wait()).await.is_ok() {
            return Ok(());
        }
        self.stop.cancel();
        let ended = timeout(grace, self.tasks.wait()).await;
        ended.map_err(|_| self.tasks.len())
    }
}

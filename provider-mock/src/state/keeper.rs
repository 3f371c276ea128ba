//! Writes the state down while it changes.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::StateFile;
use crate::cloud::Cloud;

/// How long a failed write waits before the next.
const RETRY: Duration = Duration::from_secs(5);

/// Keeps a state file in sync with a cloud.
///
/// Changes are gathered: the file is written at most once per interval, however many there are, so
/// a kill loses at most the changes of the last interval.
#[derive(Debug)]
pub struct Keeper {
    file: StateFile,
    cloud: Cloud,
    interval: Duration,
    /// From before the first write: what changes in between is written again.
    changes: watch::Receiver<u64>,
}

impl Keeper {
    /// Keeps `file` in sync with `cloud`.
    pub fn new(file: StateFile, cloud: Cloud, interval: Duration) -> Self {
        let changes = cloud.changes();
        Self {
            file,
            cloud,
            interval,
            changes,
        }
    }

    /// Runs until `stop`, then writes what is left. Fails only if that last write does.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut changes = self.changes.clone();
        let mut pause = self.interval;
        loop {
            let more = tokio::select! {
                next = changes.changed() => next.is_ok(),
                () = stop.cancelled() => false,
            };
            if !more {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {
                    changes.mark_changed();
                    break;
                }
            }
            changes.mark_unchanged();
            pause = match self.write().await {
                Ok(()) => self.interval,
                Err(error) => {
                    tracing::error!(%error, "the state is not saved; trying again");
                    changes.mark_changed();
                    RETRY
                }
            };
        }
        if changes.has_changed().unwrap_or(false) {
            self.write().await
        } else {
            Ok(())
        }
    }

    /// Writes the state as it is now.
    pub async fn write(&self) -> anyhow::Result<()> {
        // Read before what it counts: what changes in between is written too, and counted next time.
        let changes = *self.changes.borrow();
        let (file, holdings) = (self.file.clone(), self.cloud.holdings());
        let written = tokio::task::spawn_blocking(move || file.write(&holdings)).await;
        let written = written.unwrap_or_else(|failed| Err(failed.into()));
        if written.is_ok() {
            self.cloud.saved(changes);
        }
        written
    }
}

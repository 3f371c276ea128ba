//! Commands of the app to an elector.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use super::{LeaderConfig, Leadership, LeaseTerm};

/// How far past its lease duration a leader may be before `/healthz` fails (HTTP-7).
const HEALTH_SLACK: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) enum Command {
    StepDown(oneshot::Sender<()>),
    Release(oneshot::Sender<()>),
    Annotate(Annotation),
}

/// An annotation of the Lease that is to be written, or removed. Dropped with the lease term.
#[derive(Debug)]
pub(super) struct Annotation {
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) written: oneshot::Sender<()>,
}

/// Sends commands to an elector; clones share it.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) config: Arc<LeaderConfig>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) annotations: Annotations,
}

/// The annotations of the Lease, as last seen.
pub(super) type Annotations = Arc<Mutex<BTreeMap<String, String>>>;

impl Handle {
    /// The lease's namespace.
    pub fn namespace(&self) -> &str {
        &self.config.namespace
    }

    /// The lease's name.
    pub fn lease(&self) -> &str {
        &self.config.name
    }

    /// How long the lease lasts after a renewal.
    pub fn lease_duration(&self) -> Duration {
        self.config.durations.lease_duration()
    }

    /// How this process stands, and changes of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Releases the lease and goes on as a standby, which leaves the lease to others for three retry periods. For a leader
    /// that cannot do the work.
    ///
    /// Call it when all mutating work has stopped: another process may lead before it returns. It
    /// returns within the renew deadline, whatever the API server does.
    pub async fn step_down(&self) {
        self.send(Command::StepDown).await;
    }

    /// Releases the lease and ends the elector, when the process ends. Like [`step_down`](Self::step_down),
    /// call it when all mutating work has stopped.
    pub async fn release(&self) {
        self.send(Command::Release).await;
    }

    async fn send(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) {
        let (done, answered) = oneshot::channel();
        // An elector that is gone has no lease to release.
        if self.commands.send(command(done)).is_ok() {
            let _ = answered.await;
        }
    }

    /// The health check `leaderElection` of this lock: fails only if this process leads and its
    /// last renewal is older than the lease duration and 20 s. Standbys are healthy.
    pub fn check(&self) -> Result<(), String> {
        let leadership = self.leadership.borrow();
        let overdue = leadership.leading().and_then(LeaseTerm::overdue_now);
        let deadline = self.config.durations.renew_deadline();
        if overdue.is_some_and(|overdue| deadline + overdue > self.lease_duration() + HEALTH_SLACK)
        {
            let lease = self.lease();
            return Err(format!(
                "failed election to renew leadership on lease {lease}"
            ));
        }
        Ok(())
    }

    /// The Lease's annotation `key`, as last seen.
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.annotations.lock().get(key).cloned()
    }

    /// Sets (or removes) an annotation of the Lease with a renewal that is sent immediately; what fails is tried again with
    /// the renewals. Only while leading. The future waits until the API server has acknowledged it, and may be dropped.
    ///
    /// # Errors
    /// When the lease term ended before.
    pub fn annotate(
        &self,
        key: &str,
        value: Option<String>,
    ) -> impl Future<Output = Result<(), NotLeading>> + use<> {
        let (written, acknowledged) = oneshot::channel();
        let key = key.to_owned();
        // An elector that is gone drops it.
        let _ = self.commands.send(Command::Annotate(Annotation {
            key,
            value,
            written,
        }));
        async move { acknowledged.await.map_err(|_| NotLeading) }
    }
}

/// The lease is not held (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not hold the lease")]
pub struct NotLeading;

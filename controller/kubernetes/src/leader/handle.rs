//! Commands of the app to an elector.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};

use super::{LeaderConfig, Leadership, LeaseTerm, annotations::Annotations};

/// How far past its lease duration a leader may be before `/healthz` fails (HTTP-7).
const HEALTH_SLACK: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) enum Command {
    StepDown(oneshot::Sender<()>),
    Release(oneshot::Sender<()>),
    /// An annotation is to be written.
    Write,
}

/// Sends commands to an elector; clones share it.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) config: Arc<LeaderConfig>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) annotations: Arc<Annotations>,
}

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

    /// The Lease's annotation `key`: as last seen, or as it is about to be written.
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.annotations.get(key)
    }

    /// Sets (or removes) an annotation of the Lease with a renewal that is sent immediately, and waits
    /// until it is written; what fails or is undone is tried again with the renewals. Only while leading.
    ///
    /// # Errors
    /// When the lease term ended before, or the API server answers with another value.
    pub async fn annotate(&self, key: &str, value: Option<String>) -> Result<(), NotAnnotated> {
        if !self.start_annotating(key, value.clone())? {
            return Ok(());
        }
        let written = self.annotations.written(key).await;
        if written.value == value {
            Ok(())
        } else if written.is_undone {
            Err(NotAnnotated::Undone {
                actual: written.value,
            })
        } else {
            Err(NotAnnotated::NotLeading)
        }
    }

    /// Does what [`annotate`](Self::annotate) does, without waiting until it is written. Returns whether it has to be.
    ///
    /// # Errors
    /// When the elector has ended.
    pub fn start_annotating(&self, key: &str, value: Option<String>) -> Result<bool, NotAnnotated> {
        let is_due = self.annotations.set(key, value);
        // An elector that is gone has no lease to write.
        if is_due && self.commands.send(Command::Write).is_err() {
            return Err(NotAnnotated::NotLeading);
        }
        Ok(is_due)
    }
}

/// Why an annotation of the Lease is not as it was to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnnotated {
    /// The lease is not held (any more).
    #[error("this process does not hold the lease")]
    NotLeading,
    /// An admission policy or webhook changes it in each write.
    #[error("the API server answers a write of the annotation with another value")]
    Undone {
        /// The value on the Lease.
        actual: Option<String>,
    },
}

//! The state of the election for other tasks, and their commands to the elector.
//!
//! A [`LeaseTerm`] is the proof to act: the fences of the loops ask it right before each write and call. Commands are
//! answered once the Lease shows them, or the term is over.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use outrigger_core::lease::Lost;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::LeaderConfig;

/// How this process stands in one election.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// Another replica leads, or none.
    Standby {
        /// The holder of the lease, as last observed.
        holder: Option<Arc<str>>,
    },
    /// This process leads.
    Leading(LeaseTerm),
    /// It led and must not act any more: the process has to end with `leaderelection lost`.
    Lost {
        /// The cause.
        reason: Lost,
    },
}

impl Leadership {
    /// The lease term, if this process leads.
    pub fn leading(&self) -> Option<&LeaseTerm> {
        match self {
            Self::Leading(term) => Some(term),
            _ => None,
        }
    }
}

/// A lease term. Cheap to clone; all clones end together.
///
/// The token is cancelled when the lease term ends, which is always before another process can
/// be elected. But a process that was stopped and goes on (SIGSTOP, a frozen machine) may run a
/// loop before the task that cancels: ask [`is_valid_now`](Self::is_valid_now) right before each
/// mutating call.
#[derive(Clone, Debug)]
pub struct LeaseTerm {
    quiet_at: Instant,
    epoch: i32,
    token: CancellationToken,
    /// Absent: without end.
    deadline: Arc<Mutex<Option<Instant>>>,
}

impl LeaseTerm {
    /// For `--leader-elect=false`: lasts until `token` is cancelled.
    pub fn unelected(token: CancellationToken) -> Self {
        Self {
            quiet_at: Instant::now(),
            epoch: 0,
            token,
            deadline: Arc::default(),
        }
    }

    pub(super) fn new(quiet_at: Instant, epoch: i32, deadline: Instant) -> Self {
        Self {
            quiet_at,
            epoch,
            token: CancellationToken::new(),
            deadline: Arc::new(Mutex::new(Some(deadline))),
        }
    }

    /// It lasts until `deadline`.
    pub(super) fn extend(&self, deadline: Instant) {
        *self.deadline.lock() = Some(deadline);
    }

    pub(super) fn end(&self) {
        self.token.cancel();
    }

    /// From then on no write of an earlier leader is on its way to the API server.
    pub const fn quiet_at(&self) -> Instant {
        self.quiet_at
    }

    /// The Lease's `leaseTransitions`: larger with each other leader.
    pub const fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Cancelled when the lease term ends.
    pub const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// True if this process may act right now. Reads the clock, so it is right even when no task
    /// could run for a while; an end that is found here ends all clones.
    pub fn is_valid_now(&self) -> bool {
        let deadline = *self.deadline.lock();
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.token.cancel();
        }
        !self.token.is_cancelled()
    }
}

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

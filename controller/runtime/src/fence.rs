//! The right to change anything, in the cluster or in the cloud, for one lease term.
//!
//! ```text
//!                      may_write   a new call   a call in flight
//!  the term lasts         yes         yes           goes on
//!  stop()                 yes         no            goes on: its result is still written
//!  cancel()               yes         no            is cancelled
//!  the lease is lost      no          no            is cancelled
//! ```
//!
//! The binary makes one [`Fence`] for each term. The clients of the API server and of the provider ask it right before each
//! write and call; the end of the term waits for [`Fence::idle`], and releases the lease only if [`Fence::is_answered`].
//!
//! ```
//! use outrigger_runtime::fence::Fence;
//! use tokio_util::sync::CancellationToken;
//!
//! let fence = Fence::new(|| true, &CancellationToken::new());
//! let call = fence.begin(true).expect("the term lasts");
//! fence.stop();
//! assert!(fence.may_write() && fence.begin(true).is_none());
//! call.ended();
//! ```

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// The permission of this process to write to the API server and to call the provider. Clones share one
/// lease term.
///
/// It is asked right before each write and each call, after the last wait: a process that was frozen
/// may go on before it learns that another one leads.
#[derive(Clone)]
pub struct Fence {
    is_leader: Arc<dyn Fn() -> bool + Send + Sync>,
    stopped: CancellationToken,
    cancelled: CancellationToken,
    calls: watch::Sender<Calls>,
}

/// Calls that change the cloud.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    in_flight: usize,
    /// When the last one ended without an answer.
    unanswered: Option<Instant>,
}

/// A call to the provider that is in flight. Dropped before [`Self::ended`], it counts as unanswered.
#[derive(Debug)]
pub struct InFlight {
    /// Absent: the call changes nothing.
    calls: Option<watch::Sender<Calls>>,
}

impl Fence {
    /// The fence of a lease term that `is_leader` is asked about, and that ends with `term` at the
    /// latest.
    pub fn new(
        is_leader: impl Fn() -> bool + Send + Sync + 'static,
        term: &CancellationToken,
    ) -> Self {
        let cancelled = term.child_token();
        Self {
            is_leader: Arc::new(is_leader),
            stopped: cancelled.child_token(),
            cancelled,
            calls: watch::Sender::default(),
        }
    }

    /// True if a write to the API server may be sent now.
    pub fn may_write(&self) -> bool {
        (self.is_leader)()
    }

    /// True if a call to the provider may begin now.
    pub fn may_call(&self) -> bool {
        !self.stopped.is_cancelled() && (self.is_leader)()
    }

    /// Begins a call, if one may begin now. `changes`: it can change the cloud.
    pub fn begin(&self, changes: bool) -> Option<InFlight> {
        if !self.may_call() {
            return None;
        }
        let calls = changes.then(|| self.calls.clone());
        if let Some(calls) = &calls {
            calls.send_modify(|calls| calls.in_flight += 1);
        }
        Some(InFlight { calls })
    }

    /// From now on no call begins. Calls in flight go on, and their results may be written.
    pub fn stop(&self) {
        self.stopped.cancel();
    }

    /// From now on no call begins, and calls in flight are cancelled.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Waits until no call may begin any more.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    /// Waits until calls in flight are to end.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Waits until no call that changes the cloud is in flight.
    pub async fn idle(&self) {
        let mut calls = self.calls.subscribe();
        // The sender lives as long as self: waiting cannot fail.
        let _ = calls.wait_for(|calls| calls.in_flight == 0).await;
    }

    /// True if the provider has answered every call that changes the cloud, except those that went
    /// unanswered longer than `expiry` ago. If false, the provider may still be at work, and another leader must
    /// not begin yet: a lease that is left to expire gives the call `expiry` to end, and no more.
    pub fn is_answered(&self, expiry: Duration) -> bool {
        let calls = *self.calls.borrow();
        let is_open = calls.unanswered.is_some_and(|at| at.elapsed() < expiry);
        calls.in_flight == 0 && !is_open
    }
}

/// Clones are equal: they are of one lease term.
impl PartialEq for Fence {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_leader, &other.is_leader)
    }
}

impl InFlight {
    /// The provider has answered, or is gone.
    pub fn ended(mut self) {
        self.finish(true);
    }

    fn finish(&mut self, is_answered: bool) {
        if let Some(calls) = self.calls.take() {
            calls.send_modify(|calls| {
                calls.in_flight -= 1;
                if !is_answered {
                    calls.unanswered = Some(Instant::now());
                }
            });
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.finish(false);
    }
}

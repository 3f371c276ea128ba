//! State of each Service in one lease term, by name and UID.
//!
//! The reconciler, the rollout and the checks change the state of one Service under one short lock. The work of another
//! leader is not here: it is on the Services and on the Lease.

use std::{collections::BTreeMap, fmt, sync::Arc};

use outrigger_core::{
    service::{ServiceView, plan::Progress},
    targets::{Revision, TargetPool},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

/// Key of a Service in the queue. A second Service of the same name has a key of its own, so that the first is finished
/// beside it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Namespace and name.
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
}

impl ServiceKey {
    pub(super) fn of(service: &ServiceView) -> Self {
        Self {
            name: Arc::clone(&service.key),
            uid: Arc::from(&*service.uid),
        }
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.uid)
    }
}

/// State of the Services in one lease term. A restart loses it without harm: what another leader did
/// since is on the Services and on the Lease. A standby has none: it sees Services go that the leader has
/// cleaned up.
#[derive(Default)]
pub struct ServiceStates(Mutex<BTreeMap<ServiceKey, ServiceState>>);

/// State of one Service.
#[derive(Default)]
pub(super) struct ServiceState {
    pub(super) progress: Progress,
    /// True once it is known what the Lease says of its load balancer.
    pub(super) has_begun: bool,
    /// The last pool of which its load balancer was seen to have its targets.
    pub(super) in_sync_with: Option<Revision>,
    /// The Service as it was last, if it is gone from the API server or released, and its load balancer may still exist.
    pub(super) orphaned: Option<Arc<ServiceView>>,
    /// When it got its finalizer, until the load balancer is ready.
    pub(super) started: Option<Instant>,
    /// The comparison with its load balancer, which ends when this is dropped.
    pub(super) comparison: Option<DropGuard>,
    /// The pool whose targets the call about it that is in flight carries.
    pub(super) calling: Option<Revision>,
    /// True if a call about it was made in this term.
    pub(super) has_been_called: bool,
}

impl ServiceStates {
    /// Reads or changes the state of one Service. Must not block.
    pub(super) fn with<T>(&self, key: &ServiceKey, act: impl FnOnce(&mut ServiceState) -> T) -> T {
        let states = &mut *self.0.lock();
        let state = states.entry(key.clone()).or_default();
        let result = act(state);
        // Most Services are unrelated, and need no entry. All else comes with the first decision.
        let is_needed = state.has_begun || state.orphaned.is_some();
        if !is_needed && state.progress == Progress::default() {
            states.remove(key);
        }
        result
    }

    /// The Services of which a load balancer may be left without one.
    pub(super) fn orphaned(&self) -> Vec<ServiceKey> {
        let states = &self.0.lock();
        let left = states.iter().filter(|(_, state)| state.orphaned.is_some());
        left.map(|(key, _)| key.clone()).collect()
    }
}

impl ServiceState {
    /// The state of its load balancer is not to be believed.
    pub(super) fn doubt(&mut self) {
        self.progress.doubt();
        self.has_begun = true;
        self.in_sync_with = None;
    }

    pub(super) fn is_in_sync_with(&self, pool: &TargetPool) -> bool {
        self.in_sync_with.as_ref() == Some(pool.revision())
    }

    /// Records that the Service is gone from the API server, with its load balancer perhaps `left`; true if that
    /// needs a cleanup. The rest of the state of such a Service stays: it says whether the deletion is in flight already.
    pub(super) fn gone(&mut self, service: &Arc<ServiceView>, left: bool) -> bool {
        if left {
            self.orphaned = Some(Arc::clone(service));
        } else {
            *self = Self::default();
        }
        left
    }
}

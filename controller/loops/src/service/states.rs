//! State of each Service in one lease term.

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
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct ServiceState {
    pub(super) progress: Progress,
    /// True once it is known what the Lease says of its load balancer.
    pub(super) has_begun: bool,
    /// The last pool of which its load balancer was seen to have its targets.
    pub(super) in_sync_with: Option<Revision>,
    /// The Service as it was last, if it is gone from the API server or released, and its load balancer may still exist.
    pub(super) orphaned: Option<Arc<ServiceView>>,
    /// True if its load balancer is confirmed deleted since the last Ensure; a later watch deletion,
    /// before or after our own write is answered, needs no second call.
    pub(super) is_cleaned_up: bool,
    /// When its first Ensure was prepared, until the load balancer is ready.
    pub(super) started: Option<Instant>,
    /// True if it was edited since its last step was planned: also while no provider says what it reads.
    pub(super) is_edited: bool,
    /// True while the write before a call is in flight: its run looks at the record after it.
    pub(super) is_preparing: bool,
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
        let mut state = states.remove(key).unwrap_or_default();
        let result = act(&mut state);
        // Most Services are unrelated, and need no entry.
        if !state.is_default() {
            states.insert(key.clone(), state);
        }
        result
    }

    /// Returns true if the provider has an operation on the Service in progress.
    pub(super) fn is_waiting(&self, key: &ServiceKey) -> bool {
        let states = &self.0.lock();
        states
            .get(key)
            .is_some_and(|state| state.progress.is_waiting())
    }

    /// The Services of which a load balancer may be left without one.
    pub(super) fn orphaned(&self) -> Vec<ServiceKey> {
        let states = &self.0.lock();
        let left = states.iter().filter(|(_, state)| state.orphaned.is_some());
        left.map(|(key, _)| key.clone()).collect()
    }

    /// The provider is another process now.
    pub(super) fn provider_changed(&self) {
        let states = &mut self.0.lock();
        for state in states.values_mut() {
            state.progress.provider_changed();
        }
    }
}

impl ServiceState {
    fn is_default(&self) -> bool {
        let Self {
            progress,
            has_begun,
            in_sync_with,
            orphaned,
            is_cleaned_up,
            started,
            is_edited,
            is_preparing,
            comparison,
            calling,
            has_been_called,
        } = self;
        *progress == Progress::default()
            && orphaned.is_none()
            && started.is_none()
            && comparison.is_none()
            && calling.is_none()
            && in_sync_with.is_none()
            && !has_begun
            && !is_cleaned_up
            && !is_edited
            && !is_preparing
            && !has_been_called
    }

    /// The state of its load balancer is not to be believed.
    pub(super) fn doubt(&mut self) {
        self.progress.doubt();
        self.has_begun = true;
        self.in_sync_with = None;
    }

    pub(super) fn is_in_sync_with(&self, pool: &TargetPool) -> bool {
        self.in_sync_with.as_ref() == Some(pool.revision())
    }

    /// Forgets a Service that is settled or gone, except for a load balancer that may be orphaned.
    pub(super) fn reset(&mut self) {
        *self = Self {
            orphaned: self.orphaned.take(),
            is_cleaned_up: self.is_cleaned_up,
            ..Self::default()
        };
    }

    /// Records that the load balancer of the Service, as it was last, may be left; true if it needs a cleanup.
    /// The rest of the state stays: it says whether the deletion is in flight already.
    pub(super) fn mark_orphaned(&mut self, service: &Arc<ServiceView>) -> bool {
        if !self.is_cleaned_up {
            self.orphaned = Some(Arc::clone(service));
        }
        !self.is_cleaned_up
    }

    /// Records that the Service is gone from the API server, with its load balancer perhaps `left`; true if that
    /// needs a cleanup.
    pub(super) fn gone_from_store(&mut self, service: &Arc<ServiceView>, left: bool) -> bool {
        let left = left && self.mark_orphaned(service);
        self.is_cleaned_up = false;
        if !left {
            self.reset();
        }
        left
    }
}

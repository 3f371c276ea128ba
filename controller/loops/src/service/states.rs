//! State of each Service in one lease term.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use outrigger_core::service::{
    ServiceView, capability::Capability, change::needs_sync, plan::Progress,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use super::{declarations::Declarations, key::ServiceKey};

/// Work in the cloud that goes on for longer leaves its turn in the background to another Service.
const LONGEST_TURN: Duration = Duration::from_mins(10);

/// State of the Services in one lease term. A restart loses it without harm: what another leader did
/// since is on the Services and on the Lease. A standby has none: it sees Services go that the leader has
/// cleaned up.
#[derive(Default)]
pub struct ServiceStates {
    by_key: Mutex<BTreeMap<ServiceKey, ServiceState>>,
    pub(super) declarations: Declarations,
}

/// State of one Service.
#[derive(Default)]
pub(super) struct ServiceState {
    pub(super) progress: Progress,
    pub(super) left_behind: Option<LeftBehind>,
    /// Whether its load balancer is confirmed deleted since the last Ensure; a later watch deletion,
    /// before or after our own write is answered, needs no second call.
    pub(super) is_cleaned_up: bool,
    /// When its first Ensure was prepared, until the load balancer is ready.
    pub(super) started: Option<Instant>,
    /// The Service before it was edited while it was not known what the provider declares.
    before_edit: Option<Arc<ServiceView>>,
    /// The comparison with its load balancer, which ends when this is dropped.
    pub(super) comparison: Option<DropGuard>,
    /// Since when the cloud works on an Ensure of the background lane.
    turn: Option<Instant>,
}

/// A Service that is gone from the API server or released, whose load balancer may still exist.
#[derive(Clone)]
pub(super) struct LeftBehind {
    /// As it was observed last.
    pub(super) service: Arc<ServiceView>,
    pub(super) since: Instant,
}

impl ServiceStates {
    pub(super) fn new(declarations: Declarations) -> Self {
        Self {
            by_key: Mutex::default(),
            declarations,
        }
    }

    /// Reads or changes the state of one Service. Must not block.
    pub(super) fn with<T>(&self, key: &ServiceKey, act: impl FnOnce(&mut ServiceState) -> T) -> T {
        let mut states = self.by_key.lock();
        let mut state = states.remove(key).unwrap_or_default();
        let result = act(&mut state);
        // Most Services are unrelated or settled, and need no entry.
        if !state.is_default() {
            states.insert(key.clone(), state);
        }
        result
    }

    /// Whether the provider has an operation on the Service in progress.
    pub(super) fn is_waiting(&self, key: &ServiceKey) -> bool {
        let states = self.by_key.lock();
        states
            .get(key)
            .is_some_and(|state| state.progress.is_waiting())
    }

    /// Whether the Service has a turn of the background lane, without a call in flight.
    pub(super) fn has_turn(&self, key: &ServiceKey) -> bool {
        let states = self.by_key.lock();
        states.get(key).is_some_and(ServiceState::has_turn)
    }

    /// How many Services have one.
    pub(super) fn turns(&self) -> usize {
        let states = self.by_key.lock();
        states.values().filter(|state| state.has_turn()).count()
    }

    pub(super) fn left_behind(&self) -> Vec<ServiceKey> {
        let states = self.by_key.lock();
        let left = states
            .iter()
            .filter(|(_, state)| state.left_behind.is_some());
        left.map(|(key, _)| key.clone()).collect()
    }

    /// Since when a Service of the same name, but another one, waits for its end.
    pub(super) fn predecessor(&self, key: &ServiceKey) -> Option<Instant> {
        let states = self.by_key.lock();
        let of_name = states
            .range(ServiceKey::first(&key.name)..)
            .take_while(|(other, _)| other.name == key.name);
        let others = of_name.filter(|(other, _)| *other != key);
        let left = others.filter_map(|(_, state)| state.left_behind.as_ref());
        left.map(|left| left.since).max()
    }

    pub(super) fn provider_changed(&self) {
        let mut states = self.by_key.lock();
        for state in states.values_mut() {
            state.progress.provider_changed();
        }
    }
}

impl ServiceState {
    fn is_default(&self) -> bool {
        let Self {
            progress,
            left_behind,
            is_cleaned_up,
            started,
            before_edit,
            comparison,
            turn,
        } = self;
        *progress == Progress::default()
            && left_behind.is_none()
            && started.is_none()
            && before_edit.is_none()
            && comparison.is_none()
            && turn.is_none()
            && !is_cleaned_up
    }

    /// A call in the background has been answered: the cloud is still at work, or its turn is over.
    pub(super) fn keep_turn(&mut self, is_at_work: bool) {
        self.turn = is_at_work.then(|| self.turn.unwrap_or_else(Instant::now));
    }

    fn has_turn(&self) -> bool {
        self.turn
            .is_some_and(|since| since.elapsed() < LONGEST_TURN)
    }

    /// Forgets a Service that is settled or gone, except for a load balancer that it left behind.
    pub(super) fn reset(&mut self) {
        *self = Self {
            left_behind: self.left_behind.take(),
            is_cleaned_up: self.is_cleaned_up,
            ..Self::default()
        };
    }

    /// The Service was edited. As long as it is not known what the provider declares, the edit waits for
    /// [`ServiceState::judge_edit`].
    pub(super) fn edited(
        &mut self,
        old: &Arc<ServiceView>,
        now: &ServiceView,
        capability: Option<&Capability>,
    ) {
        match capability {
            Some(capability) => self.progress.edited(now, capability),
            None => {
                self.before_edit.get_or_insert_with(|| Arc::clone(old));
            }
        }
    }

    /// Applies an edit from before the provider's declaration was known.
    pub(super) fn apply_pending_edit(&mut self, now: &ServiceView, capability: &Capability) {
        let old = self.before_edit.take();
        if old.is_some_and(|old| needs_sync(&old, now, capability)) {
            self.progress.edited(now, capability);
        }
    }

    /// Records that the load balancer of the Service, as it was last, may be left; true if it needs a cleanup.
    /// The rest of the state stays: it says whether the deletion is in flight already.
    pub(super) fn mark_left_behind(&mut self, service: &Arc<ServiceView>) -> bool {
        if !self.is_cleaned_up {
            self.left_behind = Some(LeftBehind {
                service: Arc::clone(service),
                since: Instant::now(),
            });
        }
        !self.is_cleaned_up
    }

    /// Records that the Service is gone from the API server, with its load balancer perhaps `left`; true if that
    /// needs a cleanup.
    pub(super) fn gone_from_store(&mut self, service: &Arc<ServiceView>, left: bool) -> bool {
        let left = left && self.mark_left_behind(service);
        self.is_cleaned_up = false;
        if !left {
            self.reset();
        }
        left
    }
}

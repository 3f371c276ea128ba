//! State of each Service in one lease term.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use outrigger_core::service::{ServiceView, plan::Progress};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

/// Work in the cloud that goes on for longer leaves its turn in the background to another Service.
const LONGEST_TURN: Duration = Duration::from_mins(10);

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

    /// Not after any key of the name.
    pub(super) fn first(name: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(name),
            uid: Arc::default(),
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
pub struct ServiceStates(Mutex<States>);

#[derive(Default)]
struct States {
    by_key: BTreeMap<ServiceKey, ServiceState>,
    /// The Services with a turn: a look for room is too frequent to go over all.
    with_turn: BTreeSet<ServiceKey>,
}

/// State of one Service.
#[derive(Default)]
pub(super) struct ServiceState {
    pub(super) progress: Progress,
    pub(super) orphaned: Option<Orphaned>,
    /// True if its load balancer is confirmed deleted since the last Ensure; a later watch deletion,
    /// before or after our own write is answered, needs no second call.
    pub(super) is_cleaned_up: bool,
    /// When its first Ensure was prepared, until the load balancer is ready.
    pub(super) started: Option<Instant>,
    /// True if it was edited since its last step was planned.
    pub(super) is_edited: bool,
    /// The comparison with its load balancer, which ends when this is dropped.
    pub(super) comparison: Option<DropGuard>,
    /// Since when the cloud works on an Ensure of the low-priority queue.
    turn: Option<Instant>,
}

/// A Service that is gone from the API server or released, whose load balancer may still exist without it.
#[derive(Clone)]
pub(super) struct Orphaned {
    /// The Service as it was observed last.
    pub(super) service: Arc<ServiceView>,
    pub(super) since: Instant,
}

impl ServiceStates {
    /// Reads or changes the state of one Service. Must not block.
    pub(super) fn with<T>(&self, key: &ServiceKey, act: impl FnOnce(&mut ServiceState) -> T) -> T {
        let states = &mut *self.0.lock();
        let mut state = states.by_key.remove(key).unwrap_or_default();
        let had_turn = state.turn.is_some();
        let result = act(&mut state);
        match (had_turn, state.turn.is_some()) {
            (false, true) => states.with_turn.insert(key.clone()),
            (true, false) => states.with_turn.remove(key),
            _ => false,
        };
        // Most Services are unrelated or settled, and need no entry.
        if !state.is_default() {
            states.by_key.insert(key.clone(), state);
        }
        result
    }

    /// Returns true if the provider has an operation on the Service in progress.
    pub(super) fn is_waiting(&self, key: &ServiceKey) -> bool {
        let states = &self.0.lock().by_key;
        states
            .get(key)
            .is_some_and(|state| state.progress.is_waiting())
    }

    /// Returns true if the Service has a turn of the low-priority queue, without a call in flight.
    pub(super) fn has_turn(&self, key: &ServiceKey) -> bool {
        let states = &self.0.lock().by_key;
        states.get(key).is_some_and(ServiceState::has_turn)
    }

    /// How many Services have such a turn.
    pub(super) fn turns(&self) -> usize {
        let States { by_key, with_turn } = &*self.0.lock();
        let states = with_turn.iter().filter_map(|key| by_key.get(key));
        states.filter(|state| state.has_turn()).count()
    }

    /// The Services of which a load balancer may be left without one.
    pub(super) fn orphaned(&self) -> Vec<ServiceKey> {
        let states = &self.0.lock().by_key;
        let left = states.iter().filter(|(_, state)| state.orphaned.is_some());
        left.map(|(key, _)| key.clone()).collect()
    }

    /// Since when a Service of the same name, but another one, waits for its end.
    pub(super) fn predecessor(&self, key: &ServiceKey) -> Option<Instant> {
        let states = &self.0.lock().by_key;
        let of_name = states
            .range(ServiceKey::first(&key.name)..)
            .take_while(|(other, _)| other.name == key.name);
        let others = of_name.filter(|(other, _)| *other != key);
        let left = others.filter_map(|(_, state)| state.orphaned.as_ref());
        left.map(|left| left.since).max()
    }

    /// The provider is another process now.
    pub(super) fn provider_changed(&self) {
        let states = &mut self.0.lock().by_key;
        for state in states.values_mut() {
            state.progress.provider_changed();
        }
    }
}

impl ServiceState {
    fn is_default(&self) -> bool {
        let Self {
            progress,
            orphaned,
            is_cleaned_up,
            started,
            is_edited,
            comparison,
            turn,
        } = self;
        *progress == Progress::default()
            && orphaned.is_none()
            && started.is_none()
            && comparison.is_none()
            && turn.is_none()
            && !is_cleaned_up
            && !is_edited
    }

    /// A call in the background has been answered: the cloud is still at work, or its turn is over.
    pub(super) fn keep_turn(&mut self, is_at_work: bool) {
        self.turn = is_at_work.then(|| self.turn.unwrap_or_else(Instant::now));
    }

    fn has_turn(&self) -> bool {
        self.turn
            .is_some_and(|since| since.elapsed() < LONGEST_TURN)
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
            self.orphaned = Some(Orphaned {
                service: Arc::clone(service),
                since: Instant::now(),
            });
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

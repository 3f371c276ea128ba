//! State of each Service in one lease term.

use std::{collections::BTreeMap, sync::Arc};

use outrigger_core::service::{
    ServiceView, capability::Capability, change::needs_sync, plan::Progress,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::event_handlers::ServiceKey;

/// State of the Services in one lease term. A restart loses it without harm: what another leader did
/// since is on the Services and on the Lease. A standby has none: it sees Services go that the leader has
/// cleaned up.
#[derive(Default)]
pub struct ServiceStates(Mutex<BTreeMap<ServiceKey, ServiceState>>);

/// State of one Service.
#[derive(Default)]
pub(super) struct ServiceState {
    pub(super) progress: Progress,
    pub(super) left_behind: Option<LeftBehind>,
    /// Whether its load balancer is confirmed deleted since the last Ensure; a later watch deletion,
    /// before or after our own write is answered, needs no second call.
    pub(super) is_cleaned_up: bool,
    /// Since when its load balancer is made, if that was never ready.
    pub(super) begun: Option<Instant>,
    /// The Service before it was edited while it was not known what the provider declares.
    before_edit: Option<Arc<ServiceView>>,
    /// Whether its load balancer is to be compared with it.
    pub(super) is_doubted: bool,
}

/// A Service that is gone from the API server, or was taken out of our hands, and its load balancer perhaps
/// not from the cloud.
#[derive(Clone)]
pub(super) struct LeftBehind {
    /// As it was seen last.
    pub(super) service: Arc<ServiceView>,
    pub(super) since: Instant,
}

impl ServiceStates {
    /// Reads or changes the state of one Service. Must not block.
    pub(super) fn with<T>(&self, key: &ServiceKey, act: impl FnOnce(&mut ServiceState) -> T) -> T {
        let mut states = self.0.lock();
        let mut state = states.remove(key).unwrap_or_default();
        let result = act(&mut state);
        // Most Services are none of ours, or settled: nothing is to be remembered of them.
        if !state.is_default() {
            states.insert(key.clone(), state);
        }
        result
    }

    /// Whether the provider is at work for the Service.
    pub(super) fn is_waiting(&self, key: &ServiceKey) -> bool {
        let states = self.0.lock();
        states
            .get(key)
            .is_some_and(|state| state.progress.is_waiting())
    }

    pub(super) fn left_behind(&self) -> Vec<ServiceKey> {
        let states = self.0.lock();
        let left = states
            .iter()
            .filter(|(_, state)| state.left_behind.is_some());
        left.map(|(key, _)| key.clone()).collect()
    }

    /// Since when a Service of the same name, but another one, waits for its end.
    pub(super) fn predecessor(&self, key: &ServiceKey) -> Option<Instant> {
        let states = self.0.lock();
        let of_name = states
            .range(ServiceKey::first(&key.name)..)
            .take_while(|(other, _)| other.name == key.name);
        let others = of_name.filter(|(other, _)| *other != key);
        let left = others.filter_map(|(_, state)| state.left_behind.as_ref());
        left.map(|left| left.since).max()
    }

    pub(super) fn provider_changed(&self) {
        let mut states = self.0.lock();
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
            begun,
            before_edit,
            is_doubted,
        } = self;
        *progress == Progress::default()
            && left_behind.is_none()
            && begun.is_none()
            && before_edit.is_none()
            && !is_cleaned_up
            && !is_doubted
    }

    /// The Service is settled, or gone. Whether its load balancer is left, stays known.
    pub(super) fn forget(&mut self) {
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

    /// Takes in an edit from while it was not known what the provider declares.
    pub(super) fn judge_edit(&mut self, now: &ServiceView, capability: &Capability) {
        let old = self.before_edit.take();
        if old.is_some_and(|old| needs_sync(&old, now, capability)) {
            self.progress.edited(now, capability);
        }
    }

    /// The load balancer of the Service, as it was last, may be left. Whether that is to be looked at here.
    /// The state of the Service stays: it says whether the deletion is in flight already.
    pub(super) fn may_be_left(&mut self, service: &Arc<ServiceView>) -> bool {
        if !self.is_cleaned_up {
            self.left_behind = Some(LeftBehind {
                service: Arc::clone(service),
                since: Instant::now(),
            });
        }
        !self.is_cleaned_up
    }

    /// The Service is gone from the API server, and its load balancer perhaps `left`. Whether that is to be
    /// looked at.
    pub(super) fn gone_from_store(&mut self, service: &Arc<ServiceView>, left: bool) -> bool {
        let left = left && self.may_be_left(service);
        self.is_cleaned_up = false;
        if !left {
            self.forget();
        }
        left
    }
}

//! Changes of the nodes that are not in the targets of load balancers yet.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use outrigger_core::{
    node::NodeView,
    service::ServiceView,
    string_map::StringMap,
    targets::{self, Debounce, Pace, TargetRequests},
};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use outrigger_kube::store::Change;

/// Changes of the nodes that are not in the targets yet. Filled on a standby too.
pub(in crate::service) struct NodeChanges {
    pub(in crate::service) debounce: Mutex<Debounce>,
    /// Since when a change waits.
    pub(in crate::service) since: Mutex<Option<Instant>>,
    pub(in crate::service) changed: Notify,
    /// True if a node differs from the last refresh of the targets, in a field that providers see.
    is_stale: AtomicBool,
    /// The requests at the last refresh.
    requests: Mutex<Arc<TargetRequests>>,
}

impl NodeChanges {
    pub(in crate::service) fn new(pace: Pace) -> Self {
        Self {
            debounce: Mutex::new(Debounce::new(pace)),
            since: Mutex::default(),
            changed: Notify::new(),
            is_stale: AtomicBool::default(),
            requests: Mutex::default(),
        }
    }

    pub(in crate::service) fn observe(&self, now: Timestamp, change: &Change<'_, NodeView>) {
        let change = match change {
            Change::Added(node) => targets::change(None, Some(node), []),
            Change::Updated(old, node) => {
                if !targets::is_same_to_provider(old, node) {
                    self.is_stale.store(true, Ordering::Release);
                }
                targets::change(Some(old), Some(node), self.requests().label_keys())
            }
            Change::Deleted(node) => targets::change(Some(node), None, []),
        };
        if change != targets::TargetChange::None {
            self.changed(now, change);
        }
    }

    /// The annotations of a Service change. Where it selects as others do, its targets are there already.
    pub(in crate::service) fn observe_selection(
        &self,
        now: Timestamp,
        change: &Change<'_, ServiceView>,
    ) {
        let none = StringMap::default();
        let (before, after) = match change {
            Change::Added(service) => (&none, &service.annotations),
            Change::Updated(old, service) => (&old.annotations, &service.annotations),
            Change::Deleted(service) => (&service.annotations, &none),
        };
        // Mostly: then nothing is read, and no lock is taken.
        if !targets::selects_otherwise(before, after) {
            return;
        }
        let is_new = !self.requests().cover(after);
        if is_new || targets::selects_otherwise(before, &none) {
            self.changed(now, targets::TargetChange::Added);
        }
    }

    /// Changes count from now on by what `gather` finds. To be called before the nodes are read. A Service that comes
    /// meanwhile is among those that were gathered, or is compared with them.
    pub(in crate::service) fn set_requests(
        &self,
        gather: impl FnOnce() -> TargetRequests,
    ) -> Arc<TargetRequests> {
        let mut requests = self.requests.lock();
        *requests = gather().into();
        Arc::clone(&requests)
    }

    fn requests(&self) -> Arc<TargetRequests> {
        Arc::clone(&self.requests.lock())
    }

    fn changed(&self, now: Timestamp, change: targets::TargetChange) {
        self.since.lock().get_or_insert_with(Instant::now);
        self.debounce.lock().changed(now, change);
        self.is_stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Returns true if the targets must be refreshed.
    pub(in crate::service) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire)
    }

    /// To be called before the nodes are read.
    pub(in crate::service) fn mark_read(&self) {
        self.is_stale.store(false, Ordering::Release);
    }
}

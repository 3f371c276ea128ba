//! Keys for the queue and changes of the targets, from the event handlers of both stores.
//!
//! [`subscribe`] is called once, before the stores are filled, and the handlers run on a standby too: there they fill the
//! queue and the changes, and know no state of Services. A handler never waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use outrigger_core::{
    node::NodeView,
    service::{
        ServiceView,
        change::{is_undone, needs_sync},
        last_applied::LastApplied,
        ownership::{Ownership, lost_finalizer},
    },
    targets::{self, ANNOTATION_NODE_SELECTOR, Debounce, Pace, TargetChange, TargetLabels},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    decisions::{capability, may_concern},
    states::{ServiceKey, ServiceStates},
};
use crate::{control_loop::LoopInputs, queue::QueueMetrics};
use outrigger_kube::store::{Change, Origin, Store};
use outrigger_provider::Provider;
use outrigger_runtime::{backoff::Backoff, clock::Clock};

/// Upstream's back-off of Services (S-2).
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));

/// The queue of Services and the changes of nodes, filled by the stores.
#[derive(Clone)]
pub struct ServiceInputs {
    /// Keys of Services, and their state.
    pub keys: LoopInputs<ServiceKey, ServiceStates>,
    pub(super) node_changes: Arc<NodeChanges>,
    /// The clock of the changes of nodes and of the rollout that waits for them: two clocks that begin apart would differ by a
    /// step of the machine's.
    pub(super) clock: Clock,
}

/// Subscribes the loop to both stores. Queue name and back-off are upstream's (S-2).
pub fn subscribe(
    services: &Store<ServiceView>,
    nodes: &Store<NodeView>,
    provider: Provider,
    pace: Pace,
    metrics: &QueueMetrics,
) -> ServiceInputs {
    let keys = LoopInputs::<ServiceKey, ServiceStates>::new("service", BACKOFF, metrics);
    let node_changes = Arc::new(NodeChanges::new(pace));
    let LoopInputs { queue, state } = keys.clone();
    let clock = Clock::default();
    let changes = Arc::clone(&node_changes);
    services.subscribe(move |change: &Change<'_, ServiceView>, origin: Origin| {
        changes.observe_selection(clock.now(), change);
        let capability = capability(&provider);
        let states = state.current();
        let states = states.as_deref();
        let service = match change {
            Change::Added(service) => service,
            Change::Updated(..) if origin == Origin::Write => return,
            Change::Updated(old, service) => {
                let key = ServiceKey::of(service);
                if let Some(states) = states
                    && lost_finalizer(old, service, capability.as_deref())
                {
                    states.with(&key, |state| state.orphaned = Some(Arc::clone(old)));
                    queue.add(key, origin.into());
                    return;
                }
                let is_foreign_record = || {
                    LastApplied::of(old) != LastApplied::of(service)
                        && states.is_some_and(|states| {
                            states.with(&key, |s| s.progress.has_foreign_record(service))
                        })
                };
                let is_reason = Arc::ptr_eq(old, service)
                    || capability
                        .as_ref()
                        .is_none_or(|capability| needs_sync(old, service, capability))
                    || is_undone(old, service)
                    || is_foreign_record();
                if !is_reason {
                    return;
                }
                service
            }
            Change::Deleted(service) => {
                let left = Ownership::of(service, capability.as_deref()).may_be_ours();
                let key = ServiceKey::of(service);
                if states.is_some_and(|states| states.with(&key, |s| s.gone(service, left))) {
                    queue.add(key, origin.into());
                } else if states.is_none() {
                    // On a standby: the leader has cleaned up before the finalizer went. A lease term knows only
                    // the Services of its time.
                    queue.remove(&key);
                }
                return;
            }
        };
        if may_concern(service) {
            queue.add(ServiceKey::of(service), origin.into());
        }
    });
    let changes = Arc::clone(&node_changes);
    // Our own writes too: it is the cloud-node loop that gives a node its addresses.
    nodes.subscribe(move |change: &Change<'_, NodeView>, _| {
        changes.observe(clock.now(), change);
    });
    ServiceInputs {
        keys,
        node_changes,
        clock,
    }
}

/// Changes of the nodes that are not in the targets yet. Filled on a standby too.
pub(super) struct NodeChanges {
    pub(super) debounce: Mutex<Debounce>,
    pub(super) changed: Notify,
    /// True if a node differs from the last refresh of the targets, in a field that providers see.
    is_stale: AtomicBool,
    /// The labels that counted at the last refresh.
    labels: Mutex<TargetLabels>,
}

impl NodeChanges {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            debounce: Mutex::new(Debounce::new(pace)),
            changed: Notify::new(),
            is_stale: AtomicBool::default(),
            labels: Mutex::default(),
        }
    }

    fn observe(&self, now: Timestamp, change: &Change<'_, NodeView>) {
        let labels = self.labels.lock();
        let change = match change {
            Change::Added(node) => targets::change(None, Some(node), &labels),
            Change::Updated(old, node) => {
                if !targets::is_same_to_provider(old, node) {
                    self.is_stale.store(true, Ordering::Release);
                }
                targets::change(Some(old), Some(node), &labels)
            }
            Change::Deleted(node) => targets::change(Some(node), None, &labels),
        };
        drop(labels);
        if change != TargetChange::None {
            self.changed(now, change);
        }
    }

    /// A Service may select other nodes now. Where others have selectors already, its targets are there.
    fn observe_selection(&self, now: Timestamp, change: &Change<'_, ServiceView>) {
        let (before, after) = match change {
            Change::Added(service) => (None, selector(service)),
            Change::Updated(old, service) => (selector(old), selector(service)),
            Change::Deleted(service) => (selector(service), None),
        };
        if before != after && (before.is_some() || !self.labels.lock().has_selectors) {
            self.changed(now, TargetChange::Added);
        }
    }

    /// The nodes are read after this, and changes count by the labels that `gather` finds. A Service that comes meanwhile is
    /// among those that were gathered, or is compared with them.
    pub(super) fn begin_read(&self, gather: impl FnOnce() -> TargetLabels) -> TargetLabels {
        self.is_stale.store(false, Ordering::Release);
        let mut labels = self.labels.lock();
        *labels = gather();
        labels.clone()
    }

    fn changed(&self, now: Timestamp, change: TargetChange) {
        self.debounce.lock().changed(now, change);
        self.is_stale.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Returns true if the targets must be refreshed.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire)
    }
}

fn selector(service: &ServiceView) -> Option<&str> {
    service.annotations.get(ANNOTATION_NODE_SELECTOR)
}

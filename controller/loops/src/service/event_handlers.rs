//! Keys for the queue, from the event handlers of both stores.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    node::NodeView,
    service::{
        ServiceView,
        change::{begins_to_wait, is_recorded_otherwise, is_undone, needs_sync},
        ownership::{Ownership, lost_finalizer},
    },
    targets::Pace,
};

use super::{
    decisions::{capability, may_concern},
    rollout::NodeChanges,
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
    /// The clock of the changes of nodes and of the rollout that waits for them: two clocks that begin apart would differ by a step
    /// of the machine's.
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
                if lost_finalizer(old, service, capability.as_deref())
                    && states.is_some_and(|states| states.with(&key, |s| s.mark_orphaned(old)))
                {
                    queue.add(key, origin.into());
                    return;
                }
                let is_resync = Arc::ptr_eq(old, service);
                let is_other = !is_resync
                    && capability
                        .as_ref()
                        .is_none_or(|capability| needs_sync(old, service, capability));
                // A list may show annotations that were not kept before.
                let is_edited = is_other && old.resource_version != service.resource_version;
                let is_recorded = is_recorded_otherwise(old, service);
                let is_undone = !is_resync && is_undone(old, service);
                let is_reason = is_resync || is_other || is_undone || begins_to_wait(old, service);
                if !is_reason && !is_recorded {
                    return;
                }
                let mut is_preparing = false;
                if let Some(states) = states.filter(|_| !is_resync && may_concern(service)) {
                    states.with(&key, |state| {
                        state.is_edited |= is_edited;
                        if is_undone {
                            state.progress.undone(old);
                        }
                        if is_recorded {
                            state.progress.record_changed(old);
                        }
                        is_preparing = state.is_preparing;
                    });
                }
                if !is_reason && is_preparing {
                    // A call after the write that asks for time would otherwise be made again at once.
                    return;
                }
                service
            }
            Change::Deleted(service) => {
                let left = Ownership::of(service, capability.as_deref()).may_be_ours();
                let key = ServiceKey::of(service);
                if states
                    .is_some_and(|states| states.with(&key, |s| s.gone_from_store(service, left)))
                {
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

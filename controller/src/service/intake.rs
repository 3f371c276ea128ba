//! Keys for the queue, and the loop's state of each Service.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use outrigger_core::{
    node::NodeView,
    service::{
        ServiceView,
        capability::Capability,
        change::needs_sync,
        ownership::{Ownership, lost_finalizer},
        plan::Progress,
    },
    targets::Pace,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::node_changes::NodeChanges;
use crate::{
    clock::Clock,
    control_loop::LoopInputs,
    kube::store::{Change, Origin, Store},
    provider::Provider,
    queue::{Backoff, QueueMetrics},
};

/// Upstream's back-off of Services (S-2).
const BACKOFF: Backoff = Backoff::new(
    std::time::Duration::from_secs(5),
    std::time::Duration::from_mins(5),
);

/// One Service. A second one of the same name has a key of its own, so that the first is finished
/// beside it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Namespace and name.
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
}

impl Key {
    pub(super) fn of(service: &ServiceView) -> Self {
        Self {
            name: Arc::clone(&service.key),
            uid: Arc::from(&*service.uid),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.uid)
    }
}

/// A Service that is gone from the API server, or was taken out of our hands, and its load balancer perhaps
/// not from the cloud.
#[derive(Clone)]
pub(super) struct LeftBehind {
    /// As it was seen last.
    pub(super) service: Arc<ServiceView>,
    pub(super) since: Instant,
}

/// State of the Services in one lease term, by UID. A restart loses it without harm: what another leader did
/// since is on the Services and on the Lease. A standby has none: it sees Services go that the leader has
/// cleaned up.
#[derive(Default)]
pub struct Memory {
    progress: Mutex<HashMap<Arc<str>, Progress>>,
    left_behind: Mutex<HashMap<Key, LeftBehind>>,
    /// UIDs whose load balancer is confirmed deleted since the last Ensure; a later watch deletion,
    /// before or after our own write is answered, needs no second call.
    cleaned_up: Mutex<HashSet<Arc<str>>>,
    /// Since when load balancers are made that were never ready.
    begun: Mutex<HashMap<Arc<str>, Instant>>,
    /// As they were before they were edited while it was not known what the provider declares.
    unjudged: Mutex<HashMap<Arc<str>, Arc<ServiceView>>>,
    /// UIDs whose load balancer is to be compared with the Service.
    doubted: Mutex<HashSet<Arc<str>>>,
    pub(super) clock: Clock,
}

impl Memory {
    /// The state of Services before edits that are still to be judged.
    pub(super) fn take_unjudged(&self) -> HashMap<Arc<str>, Arc<ServiceView>> {
        std::mem::take(&mut *self.unjudged.lock())
    }

    fn edited(&self, old: &Arc<ServiceView>, now: &ServiceView, capability: Option<&Capability>) {
        let uid = Arc::from(&*now.uid);
        if let Some(capability) = capability {
            self.with(&uid, |progress| progress.edited(now, capability));
        } else {
            let mut unjudged = self.unjudged.lock();
            unjudged.entry(uid).or_insert_with(|| Arc::clone(old));
        }
    }

    /// Decides with what is remembered of one Service.
    pub(super) fn with<T>(&self, uid: &Arc<str>, decide: impl FnOnce(&mut Progress) -> T) -> T {
        let mut known = self.progress.lock();
        let mut progress = known.remove(uid).unwrap_or_default();
        let decided = decide(&mut progress);
        // Most Services are none of ours, or settled: nothing is to be remembered of them.
        if progress != Progress::default() {
            known.insert(Arc::clone(uid), progress);
        }
        decided
    }

    /// Whether the provider is at work for the Service.
    pub(super) fn is_waiting(&self, uid: &str) -> bool {
        let known = self.progress.lock();
        known.get(uid).is_some_and(Progress::is_waiting)
    }

    pub(super) fn forget(&self, uid: &str) {
        self.progress.lock().remove(uid);
        self.begun.lock().remove(uid);
        self.doubted.lock().remove(uid);
        self.unjudged.lock().remove(uid);
    }

    pub(super) fn provider_changed(&self) {
        let mut known = self.progress.lock();
        known.values_mut().for_each(Progress::provider_changed);
    }

    /// The time of the first request for a Service that was never ready.
    pub(super) fn began(&self, uid: &Arc<str>) {
        let mut begun = self.begun.lock();
        begun.entry(Arc::clone(uid)).or_insert_with(Instant::now);
    }

    /// Since when it was asked for, if that was new.
    pub(super) fn became_ready(&self, uid: &str) -> Option<Instant> {
        self.begun.lock().remove(uid)
    }

    pub(super) fn doubt(&self, key: &Key) {
        self.doubted.lock().insert(Arc::clone(&key.uid));
    }

    /// Whether the load balancer is to be looked at; only once.
    pub(super) fn take_doubt(&self, uid: &str) -> bool {
        self.doubted.lock().remove(uid)
    }

    pub(super) fn left_behind(&self) -> Vec<Key> {
        self.left_behind.lock().keys().cloned().collect()
    }

    pub(super) fn gone(&self, key: &Key) -> Option<LeftBehind> {
        self.left_behind.lock().get(key).cloned()
    }

    pub(super) fn leave_behind(&self, service: &Arc<ServiceView>) {
        let gone = LeftBehind {
            service: Arc::clone(service),
            since: Instant::now(),
        };
        self.left_behind.lock().insert(Key::of(service), gone);
    }

    /// The provider said that nothing is left.
    pub(super) fn cleaned_up(&self, uid: &Arc<str>) {
        self.cleaned_up.lock().insert(Arc::clone(uid));
    }

    /// There may be something again, or its end is known.
    pub(super) fn may_have_load_balancer(&self, uid: &str) {
        self.cleaned_up.lock().remove(uid);
    }

    /// Nothing of it is left in the cloud.
    pub(super) fn clear_left_behind(&self, key: &Key) {
        self.left_behind.lock().remove(key);
    }

    /// Since when a Service of the same name, but another one, waits for its end.
    pub(super) fn predecessor(&self, key: &Key) -> Option<Instant> {
        let left_behind = self.left_behind.lock();
        let others = left_behind
            .iter()
            .filter(|(gone, _)| gone.name == key.name && gone.uid != key.uid);
        others.map(|(_, gone)| gone.since).max()
    }
}

/// The queue of Services and the changes of nodes, filled by the stores.
#[derive(Clone)]
pub struct Intake {
    /// Keys of Services, and their state.
    pub inputs: LoopInputs<Key, Memory>,
    pub(super) node_changes: Arc<NodeChanges>,
}

impl fmt::Debug for Intake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intake")
            .field("queue", &self.inputs.queue)
            .finish_non_exhaustive()
    }
}

impl Intake {
    /// Subscribes to both stores. Queue name and back-off are upstream's (S-2).
    pub fn new(
        services: &Store<ServiceView>,
        nodes: &Store<NodeView>,
        provider: Provider,
        pace: Pace,
        metrics: &QueueMetrics,
    ) -> Self {
        let inputs = LoopInputs::<Key, Memory>::new("service", BACKOFF, metrics);
        let node_changes = Arc::new(NodeChanges::new(pace));
        let LoopInputs { queue: keys, state } = inputs.clone();
        services.subscribe(move |change: &Change<'_, ServiceView>, origin: Origin| {
            let capability = capability(&provider);
            let known = state.current();
            let known = known.as_deref();
            let service = match change {
                Change::Added(service) => service,
                Change::Updated(..) if origin == Origin::Write => return,
                Change::Updated(old, service) => {
                    if lost_finalizer(old, service, capability.as_deref())
                        && known.is_some_and(|known| known.may_be_left(old))
                    {
                        keys.add(Key::of(service), origin.priority());
                        return;
                    }
                    let is_resync = Arc::ptr_eq(old, service);
                    let is_reason = is_resync
                        || capability
                            .as_ref()
                            .is_none_or(|capability| needs_sync(old, service, capability));
                    if !is_reason {
                        return;
                    }
                    if let Some(known) = known.filter(|_| !is_resync && may_concern(service)) {
                        known.edited(old, service, capability.as_deref());
                    }
                    service
                }
                Change::Deleted(service) => {
                    let left = Ownership::of(service, capability.as_deref()).may_be_ours();
                    if known.is_some_and(|known| known.gone_from_store(service, left)) {
                        keys.add(Key::of(service), origin.priority());
                    }
                    return;
                }
            };
            if may_concern(service) {
                keys.add(Key::of(service), origin.priority());
            }
        });
        let changes = Arc::clone(&node_changes);
        let clock = Clock::default();
        // Our own writes too: it is the cloud-node loop that gives a node its addresses.
        nodes.subscribe(move |change: &Change<'_, NodeView>, origin| {
            changes.take_in(clock.now(), change, origin);
        });
        Self {
            inputs,
            node_changes,
        }
    }
}

impl Memory {
    /// Takes in that the Service is gone from the API server, and whether its load balancer may be
    /// `left`. Tells whether that is to be looked at.
    fn gone_from_store(&self, service: &Arc<ServiceView>, left: bool) -> bool {
        let left = left && self.may_be_left(service);
        self.may_have_load_balancer(&service.uid);
        if !left {
            self.forget(&service.uid);
        }
        left
    }

    /// Takes in that the load balancer of the Service, as it was last, may be left. Tells whether that is to
    /// be looked at here. The state of the Service stays: it says whether the deletion is in flight already.
    fn may_be_left(&self, service: &Arc<ServiceView>) -> bool {
        let is_ours = !self.cleaned_up.lock().contains(&*service.uid);
        if is_ours {
            self.leave_behind(service);
        }
        is_ours
    }
}

/// The provider's declarations.
pub(super) fn capability(provider: &Provider) -> Option<Arc<Capability>> {
    let session = provider.session()?;
    let load_balancers = session.load_balancers.as_ref()?;
    Some(Arc::clone(&load_balancers.capability))
}

/// Whether the Service can want something of any provider, or says that it still does; most can not.
pub(super) fn may_concern(service: &ServiceView) -> bool {
    Ownership::of(service, None) != Ownership::Unrelated
}

//! Targets by name: synced to the provider's process once, then named by every call that wants them.
//!
//! ```text
//!  call_with_targets ─► synced? ─► (SyncNodeSet: a delta on its revision, or all) ─► call
//!                          ▲                                                          │
//!                          └──────────────── once: NODE_SET_UNKNOWN ──────────────────┘
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{self, BoxFuture, WeakShared},
};
use outrigger_api::{
    MethodRequest,
    v1::{self, ErrorReason},
};
use outrigger_core::targets::{Revision, SET_OF_ALL, Targets};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;

use super::{
    Error, Session, Shared, admission::Permit, call::ProviderCall, preconditions::Preconditions,
    wire,
};

mod upload;

use upload::{SyncNodeSet, Upload};

/// Name of the method.
const SYNC: &str = v1::SyncNodeSetRequest::METHOD.name;

/// A set that no call has named for so long makes room for another one.
const IDLE: Duration = Duration::from_mins(10);

/// The node sets that the provider's process is known to have.
#[derive(Debug, Default)]
pub(super) struct NodeSets(Mutex<Sets>);

#[derive(Debug, Default)]
struct Sets {
    /// All of them are of this process.
    process: Process,
    /// Sets by name, no more than the provider holds.
    by_id: BTreeMap<Arc<str>, State>,
    /// Counts the syncs, so that old news does not undo a newer one.
    syncs: u64,
}

/// Ends with the number of the sync.
type Syncing = BoxFuture<'static, Result<u64, Error>>;

/// One set.
#[derive(Debug)]
struct State {
    held: Option<Held>,
    /// The sync under way. It goes on for as long as a call waits for it.
    running: Option<(Name, WeakShared<Syncing>)>,
    /// Number of its last sync.
    sync: u64,
    /// When a call named it last.
    used: Instant,
}

/// The two latest revisions, as the contract wants them kept.
#[derive(Debug)]
struct Held {
    process: Process,
    latest: Arc<Targets>,
    before: Option<Revision>,
}

/// A revision at a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    process: Process,
    revision: Revision,
}

/// The boot id of one life of the provider's process.
type Process = Box<str>;

impl State {
    fn is_syncing(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|(_, running)| running.upgrade().is_some())
    }

    /// Returns true if a call may name `targets`: the provider holds the revision, and if that is the latest, its
    /// nodes are no older than those of `targets`.
    fn holds(&self, name: &Name, targets: &Arc<Targets>) -> bool {
        let held = self.held.as_ref();
        held.filter(|held| held.process == name.process)
            .is_some_and(|held| {
                if *held.latest.revision() == name.revision {
                    Arc::ptr_eq(&held.latest, targets) || !is_newer(targets, &held.latest)
                } else {
                    held.before.as_ref() == Some(&name.revision)
                }
            })
    }

    fn base(&self, process: &str) -> Option<Arc<Targets>> {
        let held = self.held.as_ref().filter(|held| *held.process == *process);
        held.map(|held| Arc::clone(&held.latest))
    }

    fn synced(&mut self, process: Process, targets: &Arc<Targets>, sync: u64) {
        let held = self.held.take().filter(|held| held.process == process);
        let before = held.and_then(|held| {
            if held.latest.revision() == targets.revision() {
                held.before
            } else {
                Some(held.latest.revision().clone())
            }
        });
        self.held = Some(Held {
            process,
            latest: Arc::clone(targets),
            before,
        });
        self.sync = sync;
    }
}

impl Sets {
    /// Returns true if the provider holds the set of `targets`, or could beside the others. The one of all Services without
    /// a selector comes first; any other takes the place of the one that the provider forgets next, that
    /// was synced longest ago, once that is idle.
    fn has_room(&self, session: &Session, set: &Arc<str>) -> bool {
        let most = session
            .node_sets
            .map_or(0, |declared| declared.max_sets.max(1));
        self.process != session.boot_id
            || self.by_id.contains_key(set)
            || self.by_id.len() < most as usize
            || self.next_to_go().is_some_and(|id| {
                let is_idle = |state: &State| state.used.elapsed() >= IDLE;
                **set == *SET_OF_ALL || self.by_id.get(&id).is_some_and(is_idle)
            })
    }

    fn next_to_go(&self) -> Option<Arc<str>> {
        let ended = self.by_id.iter().filter(|(_, state)| !state.is_syncing());
        let oldest = ended.min_by_key(|(_, state)| state.sync);
        oldest.map(|(id, _)| Arc::clone(id))
    }

    /// The set of `targets`, with a place of its own from now on; none if there is no room for it.
    fn place(&mut self, session: &Session, set: &Arc<str>) -> Option<&mut State> {
        if !self.has_room(session, set) {
            return None;
        }
        if self.process != session.boot_id {
            self.by_id.clear();
            self.process = session.boot_id.clone();
        }
        let most = session
            .node_sets
            .map_or(0, |declared| declared.max_sets.max(1));
        if !self.by_id.contains_key(set) && self.by_id.len() >= most as usize {
            let next = self.next_to_go()?;
            self.by_id.remove(&next);
        }
        let new = || State {
            held: None,
            running: None,
            sync: 0,
            used: Instant::now(),
        };
        let state = self.by_id.entry(Arc::clone(set)).or_insert_with(new);
        state.used = Instant::now();
        Some(state)
    }
}

impl Shared {
    /// Makes a call that names `targets`, on the session of the moment. `message` makes the request.
    pub(super) async fn call_with_targets<C: ProviderCall>(
        self: &Arc<Self>,
        permit: &Permit,
        preconditions: &Preconditions,
        targets: &Arc<Targets>,
        message: impl Fn(v1::NodeTargets) -> C,
    ) -> Result<C::Reply, Error> {
        let rpc = C::Message::METHOD.name;
        let mut is_first = true;
        loop {
            let session = self.session()?;
            let sync = preconditions.wait(rpc, self.sync(preconditions, &session, targets));
            let sync = match sync.await? {
                // From now on the session has no node sets.
                Err(Error::NotServed { .. }) => continue,
                sync => sync?,
            };
            let call = self.call(permit, preconditions, &session, |session| {
                message(wire_targets(targets, session, sync.is_some()))
            });
            match call.await {
                Err(error) if is_unknown(&error) => {
                    if !is_first {
                        let what = format!(
                            "the node set of revision {} is not held ({error}), though SyncNodeSet \
                             of it has just succeeded",
                            targets.revision().as_str()
                        );
                        return Err(Error::malformed(rpc, &what));
                    }
                    is_first = false;
                    debug!(rpc, "node set unknown to the provider");
                    self.node_sets.mark_unknown(targets, sync);
                }
                result => return result,
            }
        }
    }

    /// Syncs `targets` where their node set is served; callers with the same targets share one sync. Returns its
    /// number, for [`NodeSets::mark_unknown`]; none if the call is to bring the nodes along.
    async fn sync(
        self: &Arc<Self>,
        preconditions: &Preconditions,
        session: &Arc<Session>,
        targets: &Arc<Targets>,
    ) -> Result<Option<u64>, Error> {
        let Some(set) = targets.set().filter(|_| session.has_node_sets()) else {
            return Ok(None);
        };
        let name = Name {
            process: session.boot_id.clone(),
            revision: targets.revision().clone(),
        };
        loop {
            let (running, is_ours) = {
                let mut sets = self.node_sets.0.lock();
                let Some(state) = sets.place(session, set) else {
                    return Ok(None);
                };
                if state.holds(&name, targets) {
                    return Ok(Some(state.sync));
                }
                self.join(state, set, &name, preconditions, session, targets)
            };
            let result = running.await;
            // If not, another revision goes first, and is the base of this one. An upload of the same revision
            // may have begun with older nodes: then the next pass of the loop finds what remains to send.
            if is_ours {
                result?;
            }
        }
    }

    /// The sync under way, and whether it is that of `name`: begins it if there is none.
    fn join(
        self: &Arc<Self>,
        state: &mut State,
        set: &Arc<str>,
        name: &Name,
        preconditions: &Preconditions,
        session: &Arc<Session>,
        targets: &Arc<Targets>,
    ) -> (future::Shared<Syncing>, bool) {
        if let Some((under_way, running)) = &state.running
            && let Some(running) = running.upgrade()
        {
            return (running, under_way == name);
        }
        let (shared, session) = (Arc::clone(self), Arc::clone(session));
        let (process, set, targets) = (name.process.clone(), Arc::clone(set), Arc::clone(targets));
        let base = state.base(&process);
        let preconditions = preconditions.without_check();
        let sync = async move {
            let result = shared
                .upload(&preconditions, &session, base, &targets)
                .await;
            let sets = &mut *shared.node_sets.0.lock();
            sets.syncs += 1;
            let is_same_process = sets.process == process;
            if let Some(state) = sets.by_id.get_mut(&set).filter(|_| is_same_process) {
                state.running = None;
                match &result {
                    Ok(()) => state.synced(process, &targets, sets.syncs),
                    // The result is unknown, and a snapshot heals any of them.
                    Err(_) => state.held = None,
                }
            }
            result.map(|()| sets.syncs)
        };
        let running = sync.boxed().shared();
        state.running = running.downgrade().map(|weak| (name.clone(), weak));
        (running, true)
    }

    async fn upload(
        &self,
        preconditions: &Preconditions,
        session: &Arc<Session>,
        base: Option<Arc<Targets>>,
        targets: &Targets,
    ) -> Result<(), Error> {
        let deltas = session.node_sets.is_some_and(|declared| declared.deltas);
        if let Some(base) = base.filter(|_| deltas)
            && let Some(delta) = Upload::delta(session, &base, targets)?
        {
            let result = self.send_upload(preconditions, session, delta).await;
            if !result.as_ref().is_err_and(is_unknown) {
                return result;
            }
        }
        let snapshot = Upload::snapshot(session, targets)?;
        match self.send_upload(preconditions, session, snapshot).await {
            Err(error) if is_unknown(&error) => {
                let what = format!("a snapshot needs no base ({error})");
                Err(Error::malformed(SYNC, &what))
            }
            result => result,
        }
    }

    async fn send_upload(
        &self,
        preconditions: &Preconditions,
        session: &Session,
        upload: Upload,
    ) -> Result<(), Error> {
        let upload = Arc::new(upload);
        let call = |_: &Session| SyncNodeSet::from(&upload);
        let response = self.exchange(preconditions, session, call).await?;
        if response.revision != upload.revision() {
            let what = "it names another revision than the one that was sent";
            return Err(Error::malformed(SYNC, what));
        }
        let (kind, changes) = (upload.kind(), upload.changes());
        self.metrics.node_set_synced(kind);
        debug!(
            kind,
            changes,
            revision = upload.revision(),
            "node set synced"
        );
        Ok(())
    }
}

/// Returns true if a node of `targets` is newer than the same node of `held`, which has the same revision, and
/// differs in a field that providers see.
fn is_newer(targets: &Targets, held: &Targets) -> bool {
    let mut pairs = targets.nodes().iter().zip(held.nodes());
    let other = pairs.find(|(node, held_node)| !upload::is_same(held_node, node));
    other.is_some_and(|(node, held_node)| {
        let versions = [node, held_node].map(|node| node.resource_version.parse::<u64>());
        !matches!(versions, [Ok(node), Ok(held_node)] if node < held_node)
    })
}

impl Session {
    /// Returns true if node sets are declared and served.
    pub(super) fn has_node_sets(&self) -> bool {
        self.node_sets.is_some() && !self.lacks(SYNC)
    }
}

impl NodeSets {
    /// Records that the provider does not know the set of this sync, unless a later sync has replaced it.
    fn mark_unknown(&self, targets: &Targets, sync: Option<u64>) {
        let mut sets = self.0.lock();
        let state = targets.set().and_then(|set| sets.by_id.get_mut(set));
        if let Some(state) = state.filter(|state| Some(state.sync) == sync) {
            state.held = None;
        }
    }

    /// Returns true if a call that begins now would name the set of `targets`.
    pub(super) fn names(&self, targets: &Targets, session: &Session) -> bool {
        let set = targets.set().filter(|_| session.has_node_sets());
        set.is_some_and(|set| self.0.lock().has_room(session, set))
    }
}

fn is_unknown(error: &Error) -> bool {
    matches!(
        error.reason(),
        Some(ErrorReason::NodeSetUnknown | ErrorReason::NodeSetBaseMismatch)
    )
}

/// `targets` as a call names them, or brings them along.
pub(super) fn wire_targets(
    targets: &Targets,
    session: &Session,
    is_named: bool,
) -> v1::NodeTargets {
    use v1::node_targets::Targets as Wire;
    let set = targets.set().filter(|_| is_named);
    v1::NodeTargets {
        targets: Some(if let Some(set) = set {
            Wire::Ref(v1::NodeSetRef {
                set_id: (**set).into(),
                revision: targets.revision().as_str().into(),
            })
        } else {
            let nodes = targets.nodes().iter();
            Wire::Inline(v1::InlineNodes {
                nodes: nodes.map(|node| wire::node(node, session)).collect(),
            })
        }),
    }
}

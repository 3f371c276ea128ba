//! Targets by name: synced to the provider's process once, then named by every call that wants them.
//!
//! ```text
//!  call_with_targets ─► synced? ─► (SyncNodeSet: a delta on its revision, or all) ─► call
//!                          ▲                                                          │
//!                          └──────────────── once: NODE_SET_UNKNOWN ──────────────────┘
//! ```

use std::sync::Arc;

use futures::{
    FutureExt,
    future::{self, BoxFuture, WeakShared},
};
use outrigger_api::{
    MethodRequest,
    v1::{self, ErrorReason},
};
use outrigger_core::targets::{Revision, Targets};
use parking_lot::Mutex;
use tracing::debug;

use super::{
    Error, Session, Shared, admission::Permit, call::ProviderCall, preconditions::Preconditions,
    wire,
};

mod upload;

use upload::{SyncNodeSet, Upload};

/// Name of the method.
const SYNC: &str = v1::SyncNodeSetRequest::METHOD.name;

/// There is one set for all Services.
const SET_ID: &str = "targets";

/// The node sets that the provider's process is known to have.
#[derive(Debug, Default)]
pub(super) struct NodeSets(Mutex<State>);

/// Ends with the number of the sync.
type Syncing = BoxFuture<'static, Result<u64, Error>>;

#[derive(Debug, Default)]
struct State {
    held: Option<Held>,
    /// The sync under way. It goes on for as long as a call waits for it.
    running: Option<(Name, WeakShared<Syncing>)>,
    /// Counts the syncs, so that old news does not undo a newer one.
    syncs: u64,
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

    fn synced(&mut self, process: Process, targets: &Arc<Targets>) -> u64 {
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
        self.syncs += 1;
        self.syncs
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
                message(wire_targets(targets, session))
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
                    self.node_sets.mark_unknown(sync);
                }
                result => return result,
            }
        }
    }

    /// Syncs `targets` where node sets are served; callers with the same targets share one sync. Returns its
    /// number, for [`NodeSets::mark_unknown`].
    async fn sync(
        self: &Arc<Self>,
        preconditions: &Preconditions,
        session: &Arc<Session>,
        targets: &Arc<Targets>,
    ) -> Result<u64, Error> {
        if !session.has_node_sets() {
            return Ok(0);
        }
        let name = Name {
            process: session.boot_id.clone(),
            revision: targets.revision().clone(),
        };
        loop {
            let (running, is_ours) = {
                let mut state = self.node_sets.0.lock();
                if state.holds(&name, targets) {
                    return Ok(state.syncs);
                }
                self.join(&mut state, &name, preconditions, session, targets)
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
        let (process, targets) = (name.process.clone(), Arc::clone(targets));
        let base = state.base(&process);
        let preconditions = preconditions.without_check();
        let sync = async move {
            let result = shared
                .upload(&preconditions, &session, base, &targets)
                .await;
            let mut state = shared.node_sets.0.lock();
            state.running = None;
            match result {
                Ok(()) => Ok(state.synced(process, &targets)),
                Err(error) => {
                    // The result is unknown, and a snapshot heals any of them.
                    state.held = None;
                    Err(error)
                }
            }
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
    fn mark_unknown(&self, sync: u64) {
        let mut state = self.0.lock();
        if state.syncs == sync {
            state.held = None;
        }
    }
}

fn is_unknown(error: &Error) -> bool {
    matches!(
        error.reason(),
        Some(ErrorReason::NodeSetUnknown | ErrorReason::NodeSetBaseMismatch)
    )
}

/// `targets` as a call names them, or brings them along.
pub(super) fn wire_targets(targets: &Targets, session: &Session) -> v1::NodeTargets {
    use v1::node_targets::Targets as Wire;
    v1::NodeTargets {
        targets: Some(if session.has_node_sets() {
            Wire::Ref(v1::NodeSetRef {
                set_id: SET_ID.into(),
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

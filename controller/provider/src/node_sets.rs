//! Targets by name: synced to the provider's process once, then named by every call that wants them.
//!
//! ```text
//!  call_with_targets ─► held? ─► (SyncNodeSet, one at a time) ─► call
//!                         ▲                                       │
//!                         └────────── once: NODE_SET_UNKNOWN ─────┘
//! ```

use std::{sync::Arc, time::Duration};

use outrigger_api::{
    MethodRequest,
    v1::{self, ErrorReason},
};
use outrigger_core::targets::{Revision, Targets, is_same_to_provider};
use parking_lot::Mutex;
use tokio::{sync, time::Instant};
use tracing::debug;

use super::{
    Error, Session, Shared, admission::Permit, call::ProviderCall, preconditions::Preconditions,
    wire,
};

mod upload;

use upload::{SyncNodeSet, Upload};

/// Name of the method.
const SYNC: &str = v1::SyncNodeSetRequest::METHOD.name;

/// How old fields may be that make no revision, such as labels, when a call names the set.
const OTHER_FIELDS: Duration = Duration::from_secs(10);

/// The node set as the provider's process is known to have it.
#[derive(Debug, Default)]
pub(super) struct SyncedNodes {
    state: Mutex<SyncState>,
    /// Locked by the sync under way.
    turn: sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct SyncState {
    held: Option<HeldRevisions>,
    /// Counts the syncs that ended, so that old news does not undo a newer one.
    syncs: u64,
    /// Why the last of them failed, if it did.
    failure: Option<Error>,
}

/// The two latest revisions, as the contract wants them kept.
#[derive(Debug)]
struct HeldRevisions {
    /// Boot id of the process.
    process: Box<str>,
    latest: Arc<Targets>,
    /// When its nodes were sent.
    at: Instant,
    before: Option<Revision>,
}

impl HeldRevisions {
    /// Returns true if a call may name `targets`.
    fn has(&self, process: &str, targets: &Arc<Targets>) -> bool {
        if *self.process != *process {
            false
        } else if self.latest.revision() == targets.revision() {
            Arc::ptr_eq(&self.latest, targets)
                || self.at.elapsed() < OTHER_FIELDS
                || is_same(&self.latest, targets)
        } else {
            self.before.as_ref() == Some(targets.revision())
        }
    }
}

/// Returns true if a provider sees no difference between the two, which have the same revision.
fn is_same(held: &Targets, targets: &Targets) -> bool {
    let mut pairs = held.nodes().iter().zip(targets.nodes());
    pairs.all(|(held, node)| Arc::ptr_eq(held, node) || is_same_to_provider(held, node))
}

impl SyncState {
    /// The number of the last sync, if a call may name `targets`.
    fn holds(&self, session: &Session, targets: &Arc<Targets>) -> Option<u64> {
        let held = self.held.as_ref();
        held.filter(|held| held.has(&session.boot_id, targets))
            .map(|_| self.syncs)
    }

    fn synced(&mut self, session: &Session, targets: &Arc<Targets>) {
        let held = self.held.take();
        let held = held.filter(|held| held.process == session.boot_id);
        let before = held.and_then(|held| {
            if held.latest.revision() == targets.revision() {
                held.before
            } else {
                Some(held.latest.revision().clone())
            }
        });
        self.held = Some(HeldRevisions {
            process: session.boot_id.clone(),
            latest: Arc::clone(targets),
            at: Instant::now(),
            before,
        });
    }
}

impl Shared {
    /// Makes a call that names `targets`, on the session of the moment. `message` makes the request. Where the
    /// provider has lost the set, the call is made once more, if its preconditions still hold.
    pub(super) async fn call_with_targets<C: ProviderCall>(
        &self,
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
            match (call.await, sync) {
                (Err(error), Some(sync)) if error.reason() == Some(ErrorReason::NodeSetUnknown) => {
                    if !is_first {
                        let what = format!(
                            "the node set of revision {} is not held ({error}), though SyncNodeSet \
                             of it has just succeeded",
                            set_of(targets).revision().as_str()
                        );
                        return Err(Error::malformed(rpc, &what));
                    }
                    is_first = false;
                    debug!(rpc, "node set unknown to the provider");
                    self.synced_nodes.mark_unknown(sync);
                }
                (result, _) => return result,
            }
        }
    }

    /// Syncs the set of `targets` where node sets are served, unless it is held. Returns the number of the sync; none
    /// if the call is to bring the nodes along. All who wait while a sync fails have its error.
    pub(super) async fn sync(
        &self,
        preconditions: &Preconditions,
        session: &Arc<Session>,
        targets: &Arc<Targets>,
    ) -> Result<Option<u64>, Error> {
        if !session.has_node_sets() {
            return Ok(None);
        }
        let (set, synced) = (set_of(targets), &self.synced_nodes);
        let since = {
            let state = synced.state.lock();
            if let Some(sync) = state.holds(session, set) {
                return Ok(Some(sync));
            }
            state.syncs
        };
        let _turn = synced.turn.lock().await;
        {
            let state = synced.state.lock();
            if let Some(sync) = state.holds(session, set) {
                return Ok(Some(sync));
            }
            if let Some(error) = state.failure.clone().filter(|_| state.syncs > since) {
                return Err(error);
            }
        }
        // Others wait for it too, whose calls it does not concern whether this one is still wanted.
        let preconditions = preconditions.without_check();
        let result = self.upload(&preconditions, session, set).await;
        let state = &mut *synced.state.lock();
        state.syncs += 1;
        state.failure = result.as_ref().err().cloned();
        result?;
        state.synced(session, set);
        Ok(Some(state.syncs))
    }

    async fn upload(
        &self,
        preconditions: &Preconditions,
        session: &Arc<Session>,
        set: &Arc<Targets>,
    ) -> Result<(), Error> {
        let upload = Arc::new(Upload::new(session, set)?);
        let call = |_: &Session| SyncNodeSet::from(&upload);
        let response = self.exchange(preconditions, session, call).await?;
        if response.revision != set.revision().as_str() {
            let what = "it names another revision than the one that was sent";
            return Err(Error::malformed(SYNC, what));
        }
        self.metrics.node_set_synced();
        let (nodes, revision) = (set.nodes().len(), set.revision().as_str());
        debug!(nodes, revision, "node set synced");
        Ok(())
    }
}

impl Session {
    /// Returns true if node sets are declared and served.
    pub(super) fn has_node_sets(&self) -> bool {
        self.declares::<v1::SyncNodeSetRequest>() && !self.lacks(SYNC)
    }
}

impl SyncedNodes {
    /// Records that the provider does not know the set of this sync, unless a later sync has replaced it.
    fn mark_unknown(&self, sync: u64) {
        let mut state = self.state.lock();
        if state.syncs == sync {
            state.held = None;
        }
    }
}

/// The node set that `targets` are of.
fn set_of(targets: &Arc<Targets>) -> &Arc<Targets> {
    targets.whole().unwrap_or(targets)
}

/// `targets` as a call names them, or brings them along.
pub(super) fn wire_targets(
    targets: &Arc<Targets>,
    session: &Session,
    is_named: bool,
) -> v1::NodeTargets {
    use v1::node_targets::Targets as Wire;
    let nodes = targets.nodes().iter();
    let targets = if is_named {
        Wire::Ref(v1::NodeSetRef {
            revision: set_of(targets).revision().as_str().into(),
            only: targets.whole().map(|_| v1::NodeNames {
                names: nodes.map(|node| node.name.to_string()).collect(),
            }),
        })
    } else {
        Wire::Inline(v1::InlineNodes {
            nodes: nodes.map(|node| wire::node(node, session)).collect(),
        })
    };
    v1::NodeTargets {
        targets: Some(targets),
    }
}

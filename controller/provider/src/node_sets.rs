//! Targets by name: synced to the provider's process once, then named by every call that wants them.
//!
//! ```text
//!  call_with_targets ─► held? ─► (SyncNodeSet, one at a time) ─► call
//!                         ▲                                       │
//!                         └────────── once: NODE_SET_UNKNOWN ─────┘
//! ```
//!
//! [`crate::load_balancers`] makes its calls with it. Where a provider serves no node sets, each call brings its Nodes
//! along. A process that restarted has lost its sets, which the boot ID shows.

use std::{ops::Range, ptr, sync::Arc, time::Duration};

use outrigger_api::{
    MethodRequest,
    v1::{self, CallContext, ErrorReason},
};
use outrigger_core::targets::{Targets, is_same_to_provider};
use parking_lot::Mutex;
use prost::Message;
use tokio::{sync, time::Instant};
use tracing::debug;

use super::{Error, Session, admission::Slot, call::Caller, wire};

/// Name of the method.
const SYNC: &str = v1::SyncNodeSetRequest::METHOD.name;

/// How old fields may be that make no revision, such as labels, when a call names the set.
const OTHER_FIELDS: Duration = Duration::from_secs(10);

/// Bytes of a message, unless the provider accepts less.
const MESSAGE: usize = 1 << 20;
/// Bytes of a message besides its nodes, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one node: a tag and a length.
const AROUND: usize = 6;

/// The node set as the provider's process is known to have it.
#[derive(Debug, Default)]
pub(super) struct SyncedNodes {
    state: Mutex<SyncState>,
    /// Locked by the sync under way.
    turn: sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct SyncState {
    /// The two latest revisions, as the contract wants them kept, the latest first.
    held: Vec<HeldRevision>,
    /// Counts the syncs that ended, so that old news does not undo a newer one.
    syncs: u64,
    /// Why the last of them failed, if it did.
    failure: Option<Error>,
}

#[derive(Debug)]
struct HeldRevision {
    /// Boot id of the process.
    process: Arc<str>,
    targets: Arc<Targets>,
    /// When its nodes were sent.
    at: Instant,
}

impl SyncState {
    /// Returns true if a call may name `targets`.
    fn holds(&self, session: &Session, targets: &Arc<Targets>) -> bool {
        let mut held = self.held.iter().enumerate();
        held.any(|(age, held)| {
            held.process == session.boot_id
                && held.targets.revision() == targets.revision()
                && (age > 0 || held.at.elapsed() < OTHER_FIELDS || is_same(&held.targets, targets))
        })
    }

    fn synced(&mut self, session: &Session, targets: &Arc<Targets>) {
        self.held.retain(|held| {
            held.process == session.boot_id && held.targets.revision() != targets.revision()
        });
        self.held.truncate(1);
        let held = HeldRevision {
            process: session.boot_id.clone(),
            targets: Arc::clone(targets),
            at: Instant::now(),
        };
        self.held.insert(0, held);
    }
}

/// Returns true if a provider sees no difference between the two, which have the same revision.
fn is_same(held: &Targets, targets: &Targets) -> bool {
    let mut pairs = held.nodes().iter().zip(targets.nodes());
    ptr::eq(held, targets)
        || pairs.all(|(held, node)| Arc::ptr_eq(held, node) || is_same_to_provider(held, node))
}

impl Caller {
    /// Makes a call that names `targets`, on the session of the moment. `message` makes the request. Where the
    /// provider has lost the set, the call is made once more, if its preconditions still hold.
    pub(super) async fn call_with_targets<M: MethodRequest>(
        &self,
        slot: &Slot,
        targets: &Arc<Targets>,
        message: impl Fn(v1::NodeTargets) -> M,
    ) -> Result<M::Response, Error> {
        let rpc = M::METHOD.name;
        let mut is_first = true;
        loop {
            let session = self.shared.session()?;
            let sync = self.wait(rpc, self.sync(&session, targets)).await?;
            let sync = match sync {
                // From now on the session has no node sets.
                Err(Error::NotServed { .. }) => continue,
                sync => sync?,
            };
            slot.begin();
            let request = message(wire_targets(targets, &session, sync.is_some()));
            let result = self.unary(&session, request).await;
            slot.permit.ended(result.as_ref().err());
            match (result, sync) {
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
                    let mut state = self.shared.synced_nodes.state.lock();
                    if state.syncs == sync {
                        state.held.clear();
                    }
                }
                (result, _) => return result,
            }
        }
    }

    /// Syncs the set of `targets` where node sets are served, unless it is held. Returns the number of the last sync; none
    /// if the call is to bring the nodes along. All who wait while a sync fails have its error.
    pub(super) async fn sync(
        &self,
        session: &Arc<Session>,
        targets: &Arc<Targets>,
    ) -> Result<Option<u64>, Error> {
        if !session.has_node_sets() {
            return Ok(None);
        }
        let (set, synced) = (set_of(targets), &self.shared.synced_nodes);
        let since = {
            let state = synced.state.lock();
            if state.holds(session, set) {
                return Ok(Some(state.syncs));
            }
            state.syncs
        };
        let _turn = synced.turn.lock().await;
        {
            let state = synced.state.lock();
            if state.holds(session, set) {
                return Ok(Some(state.syncs));
            }
            if let Some(error) = state.failure.clone().filter(|_| state.syncs > since) {
                return Err(error);
            }
        }
        // Others wait for it too, whose calls it does not concern whether this one is still wanted.
        let result = self.of_several().upload(session, set).await;
        let state = &mut *synced.state.lock();
        state.syncs += 1;
        state.failure = result.as_ref().err().cloned();
        result?;
        state.synced(session, set);
        Ok(Some(state.syncs))
    }

    /// Uploads the set. Its messages are made one at a time, so that no node is copied before.
    async fn upload(&self, session: &Arc<Session>, set: &Arc<Targets>) -> Result<(), Error> {
        let ranges = messages(set, session)?;
        let upload = |first: v1::SyncNodeSetRequest| {
            let (session, set) = (Arc::clone(session), Arc::clone(set));
            let channel = session.channel();
            let mut context = first.context;
            let messages = ranges.into_iter();
            let messages =
                messages.map(move |nodes| message(&set, nodes, &session, context.take()));
            channel.upload(tokio_stream::iter(messages))
        };
        let synced = self.exchange(session, v1::SyncNodeSetRequest::default(), upload);
        let revision = set.revision().as_str();
        if synced.await?.revision != revision {
            let what = "it names another revision than the one that was sent";
            return Err(Error::malformed(SYNC, what));
        }
        debug!(nodes = set.nodes().len(), revision, "node set synced");
        Ok(())
    }
}

impl Session {
    /// Returns true if node sets are declared and served.
    fn has_node_sets(&self) -> bool {
        self.declares::<v1::SyncNodeSetRequest>() && !self.lacks(SYNC)
    }
}

/// Which nodes go into one message; one message at least, for the last one names the revision.
fn messages(set: &Targets, session: &Session) -> Result<Vec<Range<usize>>, Error> {
    let limit = session.max_send_bytes;
    let most = limit.min(MESSAGE).saturating_sub(ENVELOPE);
    let mut messages = Vec::new();
    let (mut start, mut room) = (0, most);
    for (at, node) in set.nodes().iter().enumerate() {
        let bytes = AROUND + wire::node(node, session).encoded_len();
        if bytes + ENVELOPE > limit {
            let rpc = SYNC;
            return Err(Error::TooLarge { rpc, bytes, limit });
        }
        if bytes > room && at > start {
            messages.push(start..at);
            (start, room) = (at, most);
        }
        room = room.saturating_sub(bytes);
    }
    messages.push(start..set.nodes().len());
    Ok(messages)
}

/// The message of these nodes.
fn message(
    set: &Targets,
    nodes: Range<usize>,
    session: &Session,
    context: Option<CallContext>,
) -> v1::SyncNodeSetRequest {
    let all = set.nodes();
    let complete = nodes.end == all.len();
    let nodes = all.get(nodes).unwrap_or_default().iter();
    let mut message = v1::SyncNodeSetRequest {
        context,
        nodes: nodes.map(|node| wire::node(node, session)).collect(),
        ..v1::SyncNodeSetRequest::default()
    };
    if complete {
        message.complete = true;
        message.revision = set.revision().as_str().into();
        message.node_count = all.len() as u32;
    }
    message
}

/// The node set that `targets` are of.
fn set_of(targets: &Arc<Targets>) -> &Arc<Targets> {
    targets.whole().unwrap_or(targets)
}

/// `targets` as a call names them, or brings them along.
fn wire_targets(targets: &Arc<Targets>, session: &Session, is_named: bool) -> v1::NodeTargets {
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

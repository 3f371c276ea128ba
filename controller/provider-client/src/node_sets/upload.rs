//! One upload of a node set: planned in chunks, and made message by message.

use std::{iter, ops::Range, sync::Arc};

use outrigger_api::v1::{self, CallContext, sync_node_set_request::Part};
use outrigger_core::{
    node::NodeView,
    targets::{self, Targets},
};
use prost::Message;
use tonic::{Request, Status};

use super::SYNC;
use crate::{Error, Session, call::ProviderCall, details::Checked, rpc, wire};

/// Bytes of a chunk, unless the provider accepts less.
const CHUNK: usize = 1 << 20;
/// Bytes of a message besides its entries, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one entry: a tag and a length.
const AROUND: usize = 6;

/// `NodeSetsService.SyncNodeSet`.
pub(super) struct SyncNodeSet {
    upload: Arc<Upload>,
    context: Option<CallContext>,
}

impl From<&Arc<Upload>> for SyncNodeSet {
    fn from(upload: &Arc<Upload>) -> Self {
        Self {
            upload: Arc::clone(upload),
            context: None,
        }
    }
}

impl ProviderCall for SyncNodeSet {
    type Message = v1::SyncNodeSetRequest;
    type Reply = v1::SyncNodeSetResponse;

    fn context_mut(&mut self) -> Option<&mut Option<CallContext>> {
        Some(&mut self.context)
    }

    /// Its chunks are cut to the limit.
    fn bytes(&self) -> usize {
        0
    }

    async fn send(
        call: Request<Self>,
        channel: Checked,
        max_send: usize,
    ) -> Result<Self::Reply, Status> {
        let messages = |call: Self| tokio_stream::iter(messages(call.upload, call.context));
        rpc::client_streaming(channel, max_send, call.map(messages)).await
    }
}

/// The upload. Chunks are made one at a time, so that no node is copied before.
#[derive(Debug)]
pub(super) struct Upload {
    session: Arc<Session>,
    set: Arc<str>,
    /// Empty: a snapshot.
    base: Box<str>,
    revision: Box<str>,
    node_count: usize,
    changes: Vec<Entry>,
    chunks: Vec<Range<usize>>,
}

#[derive(Debug)]
enum Entry {
    Upsert(Arc<NodeView>),
    Removal(Arc<str>),
}

impl Upload {
    /// All of `targets`.
    pub(super) fn snapshot(session: &Arc<Session>, targets: &Targets) -> Result<Self, Error> {
        let nodes = targets.nodes().iter();
        let changes = nodes.map(|node| Entry::Upsert(Arc::clone(node))).collect();
        Self::of(session, "", targets, changes)
    }

    /// The change that makes `targets` of `base`, if that is less than all of it.
    pub(super) fn delta(
        session: &Arc<Session>,
        base: &Targets,
        targets: &Targets,
    ) -> Result<Option<Self>, Error> {
        let changes = difference(base.nodes(), targets.nodes());
        if changes.len() >= targets.nodes().len() {
            return Ok(None);
        }
        Self::of(session, base.revision().as_str(), targets, changes).map(Some)
    }

    fn of(
        session: &Arc<Session>,
        base: &str,
        targets: &Targets,
        changes: Vec<Entry>,
    ) -> Result<Self, Error> {
        Ok(Self {
            set: targets.set().cloned().unwrap_or_default(),
            base: base.into(),
            revision: targets.revision().as_str().into(),
            node_count: targets.nodes().len(),
            chunks: chunks(&changes, session)?,
            changes,
            session: Arc::clone(session),
        })
    }

    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    /// The value of the metric's label `kind`.
    pub(super) const fn kind(&self) -> &'static str {
        if self.base.is_empty() {
            "snapshot"
        } else {
            "delta"
        }
    }

    /// Nodes that come and go.
    pub(super) const fn changes(&self) -> usize {
        self.changes.len()
    }

    fn begin(&self, context: Option<CallContext>) -> v1::NodeSetBegin {
        v1::NodeSetBegin {
            context,
            set_id: (*self.set).into(),
            base_revision: self.base.to_string(),
            revision: self.revision.to_string(),
            node_count: self.node_count as u32,
        }
    }

    fn chunk(&self, at: usize) -> v1::NodeSetChunk {
        let mut chunk = v1::NodeSetChunk::default();
        let changes = self
            .chunks
            .get(at)
            .and_then(|of| self.changes.get(of.clone()));
        for change in changes.unwrap_or_default() {
            match change {
                Entry::Upsert(node) => chunk.upserts.push(wire::node(node, &self.session)),
                Entry::Removal(name) => chunk.removals.push(name.to_string()),
            }
        }
        chunk
    }
}

fn messages(
    upload: Arc<Upload>,
    context: Option<CallContext>,
) -> impl Iterator<Item = v1::SyncNodeSetRequest> + Send + 'static {
    let begin = Part::Begin(upload.begin(context));
    let commit = Part::Commit(v1::NodeSetCommit {
        change_count: upload.changes.len() as u32,
    });
    let chunks = (0..upload.chunks.len()).map(move |at| Part::Chunk(upload.chunk(at)));
    let parts = iter::once(begin).chain(chunks).chain([commit]);
    parts.map(|part| v1::SyncNodeSetRequest { part: Some(part) })
}

/// Both by name.
fn difference(base: &[Arc<NodeView>], desired: &[Arc<NodeView>]) -> Vec<Entry> {
    let mut changes = Vec::new();
    let mut base = base.iter().peekable();
    for node in desired {
        while let Some(gone) = base.next_if(|base_node| base_node.name < node.name) {
            changes.push(Entry::Removal(Arc::clone(&gone.name)));
        }
        let base_node = base.next_if(|base_node| base_node.name == node.name);
        if !base_node.is_some_and(|base_node| is_same(base_node, node)) {
            changes.push(Entry::Upsert(Arc::clone(node)));
        }
    }
    changes.extend(base.map(|gone| Entry::Removal(Arc::clone(&gone.name))));
    changes
}

/// Returns true if a provider sees no difference between the two.
pub(super) fn is_same(held: &Arc<NodeView>, node: &Arc<NodeView>) -> bool {
    Arc::ptr_eq(held, node) || targets::is_same_to_provider(held, node)
}

/// Which changes go into one message.
fn chunks(changes: &[Entry], session: &Session) -> Result<Vec<Range<usize>>, Error> {
    let limit = session.max_send_bytes;
    let most = limit.min(CHUNK).saturating_sub(ENVELOPE);
    let mut chunks = Vec::new();
    let (mut start, mut room) = (0, most);
    for (at, change) in changes.iter().enumerate() {
        let bytes = AROUND
            + match change {
                Entry::Upsert(node) => wire::node(node, session).encoded_len(),
                Entry::Removal(name) => name.len(),
            };
        if bytes + ENVELOPE > limit {
            return Err(Error::TooLarge {
                rpc: SYNC,
                bytes,
                limit,
            });
        }
        if bytes > room && at > start {
            chunks.push(start..at);
            (start, room) = (at, most);
        }
        room = room.saturating_sub(bytes);
    }
    if start < changes.len() {
        chunks.push(start..changes.len());
    }
    Ok(chunks)
}

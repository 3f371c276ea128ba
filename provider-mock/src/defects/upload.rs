//! An upload of a node set, of several messages.

use outrigger_api::v1::{
    NodeSetBegin, NodeSetChunk, NodeSetCommit, SyncNodeSetRequest, sync_node_set_request::Part,
};
use prost::Message as _;

use crate::exchange::Call;

/// The parts of an upload.
#[derive(Clone, Default)]
pub(super) struct Upload {
    pub(super) begin: Option<NodeSetBegin>,
    pub(super) chunks: Vec<NodeSetChunk>,
    /// `NodeSetCommit.change_count`.
    pub(super) committed: Option<u32>,
}

impl Upload {
    pub(super) fn of(call: &Call) -> Self {
        let mut upload = Self::default();
        for bytes in &call.messages {
            let message = SyncNodeSetRequest::decode(bytes.as_slice()).unwrap_or_default();
            match message.part {
                Some(Part::Begin(begin)) => upload.begin = Some(begin),
                Some(Part::Chunk(chunk)) => upload.chunks.push(chunk),
                Some(Part::Commit(commit)) => upload.committed = Some(commit.change_count),
                None => {}
            }
        }
        upload
    }

    /// The call with these parts.
    pub(super) fn of_call(&self, mut call: Call) -> Call {
        let begin = self.begin.clone().map(Part::Begin);
        let chunks = self.chunks.iter().cloned().map(Part::Chunk);
        let commit = self.committed;
        let commit = commit.map(|change_count| Part::Commit(NodeSetCommit { change_count }));
        let parts = begin.into_iter().chain(chunks).chain(commit);
        let parts = parts.map(|part| SyncNodeSetRequest { part: Some(part) });
        call.messages = parts.map(|one| one.encode_to_vec()).collect();
        call
    }

    pub(super) fn begin(&self) -> NodeSetBegin {
        self.begin.clone().unwrap_or_default()
    }

    /// The changes of all chunks.
    pub(super) fn changes(&self) -> u32 {
        let counts = self.chunks.iter();
        let counts = counts.map(|one| one.upserts.len() + one.removals.len());
        counts.sum::<usize>() as u32
    }

    /// Counts as if nothing were wrong with it.
    pub(super) fn counted(&mut self) {
        self.committed = Some(self.changes());
    }
}

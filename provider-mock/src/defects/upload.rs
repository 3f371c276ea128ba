//! An upload of the node set, of several messages.

use outrigger_api::v1::SyncNodeSetRequest;
use prost::Message as _;

use crate::exchange::Call;

/// The messages of an upload.
#[derive(Clone, Default)]
pub(super) struct Upload(pub(super) Vec<SyncNodeSetRequest>);

impl Upload {
    pub(super) fn of(call: &Call) -> Self {
        let messages = call.messages.iter();
        let read = |bytes: &Vec<u8>| SyncNodeSetRequest::decode(bytes.as_slice());
        Self(messages.map(|one| read(one).unwrap_or_default()).collect())
    }

    /// The call with these messages.
    pub(super) fn of_call(&self, mut call: Call) -> Call {
        call.messages = self.0.iter().map(|one| one.encode_to_vec()).collect();
        call
    }

    pub(super) fn revision(&self) -> &str {
        self.0.last().map_or("", |last| &last.revision)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.0.last().is_some_and(|last| last.complete)
    }

    /// The nodes of all messages.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|one| one.nodes.len()).sum()
    }
}

//! One upload of the node set: planned in messages, and made message by message.

use std::{ops::Range, sync::Arc};

use outrigger_api::v1::{self, CallContext};
use outrigger_core::targets::Targets;
use prost::Message;
use tonic::{Request, Status};

use super::SYNC;
use crate::{
    Error, Session,
    call::ProviderCall,
    channel::{self, Channel},
    wire,
};

/// Bytes of a message, unless the provider accepts less.
const MESSAGE: usize = 1 << 20;
/// Bytes of a message besides its nodes, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one node: a tag and a length.
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

    /// Its messages are cut to the limit.
    fn bytes(&self) -> usize {
        0
    }

    async fn send(
        call: Request<Self>,
        channel: Channel,
        max_send: usize,
    ) -> Result<Self::Reply, Status> {
        let messages = |mut call: Self| {
            let messages = 0..call.upload.messages.len();
            tokio_stream::iter(messages.map(move |at| call.upload.message(at, call.context.take())))
        };
        channel::client_streaming(channel, max_send, call.map(messages)).await
    }
}

/// The upload. Its messages are made one at a time, so that no node is copied before.
#[derive(Debug)]
pub(super) struct Upload {
    session: Arc<Session>,
    set: Arc<Targets>,
    /// The nodes of each message.
    messages: Vec<Range<usize>>,
}

impl Upload {
    pub(super) fn new(session: &Arc<Session>, set: &Arc<Targets>) -> Result<Self, Error> {
        Ok(Self {
            messages: messages(set, session)?,
            session: Arc::clone(session),
            set: Arc::clone(set),
        })
    }

    fn message(&self, at: usize, context: Option<CallContext>) -> v1::SyncNodeSetRequest {
        let nodes = self.messages.get(at).cloned().unwrap_or_default();
        let nodes = self.set.nodes().get(nodes).unwrap_or_default().iter();
        let mut message = v1::SyncNodeSetRequest {
            context,
            nodes: nodes.map(|node| wire::node(node, &self.session)).collect(),
            ..v1::SyncNodeSetRequest::default()
        };
        if at + 1 == self.messages.len() {
            message.complete = true;
            message.revision = self.set.revision().as_str().into();
            message.node_count = self.set.nodes().len() as u32;
        }
        message
    }
}

/// Which nodes go into one message; one at least, for the last one names the revision.
fn messages(set: &Targets, session: &Session) -> Result<Vec<Range<usize>>, Error> {
    let limit = session.max_send_bytes;
    let most = limit.min(MESSAGE).saturating_sub(ENVELOPE);
    let mut messages = Vec::new();
    let (mut start, mut room) = (0, most);
    for (at, node) in set.nodes().iter().enumerate() {
        let bytes = AROUND + wire::node(node, session).encoded_len();
        if bytes + ENVELOPE > limit {
            return Err(Error::TooLarge {
                rpc: SYNC,
                bytes,
                limit,
            });
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

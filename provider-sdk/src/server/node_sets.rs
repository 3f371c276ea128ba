//! `NodeSetsService`: uploads of the node set, applied as a whole or not at all.
//!
//! The controller streams Nodes; the last message is `complete` and names the revision and the number of Nodes. If the
//! stream breaks, the number differs or a Node comes twice, the revisions that are held stay as they are.

use std::collections::{BTreeMap, btree_map::Entry};
use std::sync::Arc;

use outrigger_api::MethodRequest;
use outrigger_api::v1::{self, node_sets_service_server::NodeSetsService};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Response, Status, Streaming};

use super::arrival::Arrival;
use super::calls::Call;
use super::core::Core;
use crate::{Context, Error};

pub(super) struct NodeSetsRpc {
    pub(super) core: Arc<Core>,
}

#[tonic::async_trait]
impl NodeSetsService for NodeSetsRpc {
    async fn sync_node_set(
        &self,
        request: Request<Streaming<v1::SyncNodeSetRequest>>,
    ) -> Result<Response<v1::SyncNodeSetResponse>, Status> {
        let arrival = Arrival::of(&request);
        let method = v1::SyncNodeSetRequest::METHOD;
        let deadline = arrival.deadline;
        let until = deadline.unwrap_or_else(|| Instant::now() + method.deadline);
        let mut messages = request.into_inner();
        let begun = async {
            let mut first = next(&mut messages, until).await?;
            let context = first.context.take();
            let call = Call::admit_context(&self.core, method, arrival, context)?;
            Ok((call, first))
        };
        let (call, mut message) = begun.await.map_err(Error::into_status)?;
        let core = Arc::clone(&self.core);
        let sync = async move |ctx: Context| {
            let mut nodes = BTreeMap::new();
            loop {
                add(&mut nodes, message.nodes)?;
                if message.complete {
                    break;
                }
                message = ctx.unless_cancelled(next(&mut messages, until)).await??;
            }
            let v1::SyncNodeSetRequest {
                revision,
                node_count,
                ..
            } = message;
            if revision.is_empty() || node_count as usize != nodes.len() {
                return Err(Error::invalid_request(format!(
                    "the last message names the revision {revision:?} and {node_count} nodes, {} came; it needs a \
                     revision and the number of nodes; nothing was applied",
                    nodes.len()
                )));
            }
            core.node_set.synced(&revision, nodes);
            Ok(v1::SyncNodeSetResponse { revision })
        };
        call.run(sync).await
    }
}

fn add(nodes: &mut BTreeMap<String, Arc<v1::Node>>, message: Vec<v1::Node>) -> Result<(), Error> {
    for node in message {
        match nodes.entry(node.name.clone()) {
            Entry::Vacant(entry) => entry.insert(Arc::new(node)),
            Entry::Occupied(entry) => {
                return Err(Error::invalid_request(format!(
                    "the upload has node {:?} twice; nothing was applied",
                    entry.key()
                )));
            }
        };
    }
    Ok(())
}

/// The next message. A cancelled upload may look like the end of the stream.
async fn next(
    messages: &mut Streaming<v1::SyncNodeSetRequest>,
    until: Instant,
) -> Result<v1::SyncNodeSetRequest, Error> {
    let message = timeout_at(until, messages.message())
        .await
        .map_err(|_| Error::deadline_exceeded())?;
    match message {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(Error::invalid_request(
            "the upload ended without complete; nothing was applied",
        )),
        Err(status) if status.code() == Code::OutOfRange => Err(Error::invalid_request(
            "a message of the upload is larger than this provider accepts; stay below \
             HandshakeResponse.max_receive_message_bytes",
        )),
        Err(status) => Err(Error::internal("the upload broke").with_source(status)),
    }
}

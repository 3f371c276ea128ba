//! `NodeSetsService`: uploads, applied as a whole or not at all.

use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::{
    self, node_sets_service_server::NodeSetsService, sync_node_set_request::Part,
};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Response, Status, Streaming};

use super::arrival::Arrival;
use super::calls::{Call, answered};
use super::core::Core;
use crate::Error;
use crate::node_sets::{NodeSets, Upload};

/// The deadline of an upload whose caller names none.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct NodeSetsRpc {
    core: Arc<Core>,
    node_sets: Arc<NodeSets>,
}

impl NodeSetsRpc {
    pub(super) fn new(core: Arc<Core>, node_sets: Arc<NodeSets>) -> Self {
        Self { core, node_sets }
    }
}

#[tonic::async_trait]
impl NodeSetsService for NodeSetsRpc {
    async fn sync_node_set(
        &self,
        request: Request<Streaming<v1::SyncNodeSetRequest>>,
    ) -> Result<Response<v1::SyncNodeSetResponse>, Status> {
        answered(async {
            let arrival = Arrival::of(&request);
            let until = arrival.deadline.unwrap_or(Instant::now() + PATIENCE);
            let mut parts = request.into_inner();
            let Some(Part::Begin(mut begin)) = next(&mut parts, until).await? else {
                return Err(Error::invalid_request(
                    "the upload does not start with begin",
                ));
            };
            let context = begin.context.take();
            let call = Call::admit_context(&self.core, "SyncNodeSet", arrival, context.as_ref())?;
            let node_sets = Arc::clone(&self.node_sets);
            let response = call.run(async move |ctx| {
                let mut upload = Upload::begin(&node_sets, begin)?;
                loop {
                    let part = tokio::select! {
                        biased;
                        () = ctx.cancelled() => return Err(Error::cancelled()),
                        part = next(&mut parts, until) => part?,
                    };
                    match part {
                        Some(Part::Chunk(chunk)) => upload.chunk(chunk)?,
                        Some(Part::Commit(commit)) => return upload.commit(&node_sets, commit),
                        Some(Part::Begin(_)) => {
                            return Err(Error::invalid_request("the upload begins twice"));
                        }
                        // A cancelled upload looks like this too.
                        None => {
                            return Err(Error::invalid_request(
                                "the upload ended without commit; nothing was applied",
                            ));
                        }
                    }
                }
            });
            response.await
        })
        .await
    }
}

/// The next part; none at the end of the stream.
async fn next(
    parts: &mut Streaming<v1::SyncNodeSetRequest>,
    until: Instant,
) -> Result<Option<Part>, Error> {
    let message = timeout_at(until, parts.message())
        .await
        .map_err(|_| Error::deadline_exceeded())?;
    match message {
        Ok(None) => Ok(None),
        Ok(Some(v1::SyncNodeSetRequest { part: Some(part) })) => Ok(Some(part)),
        Ok(Some(_)) => Err(Error::invalid_request(
            "a message of the upload has no part",
        )),
        Err(status) if status.code() == Code::OutOfRange => Err(Error::invalid_request(
            "a message of the upload is larger than this provider accepts; stay below \
             HandshakeResponse.max_receive_message_bytes",
        )),
        Err(status) => Err(Error::internal("the upload broke").with_source(status)),
    }
}

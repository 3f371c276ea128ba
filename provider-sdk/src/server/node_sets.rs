//! `NodeSetsService`: uploads, applied as a whole or not at all.

use std::sync::Arc;

use outrigger_api::MethodRequest;
use outrigger_api::v1::{
    self, node_sets_service_server::NodeSetsService, sync_node_set_request::Part,
};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Response, Status, Streaming};

use super::arrival::Arrival;
use super::calls::Call;
use super::core::Core;
use crate::node_sets::Upload;
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
        let mut parts = request.into_inner();
        let begun = async {
            let Some(Part::Begin(mut begin)) = next(&mut parts, until).await? else {
                return Err(Error::invalid_request(
                    "the upload does not start with begin",
                ));
            };
            let context = begin.context.take();
            let call = Call::admit_context(&self.core, method, arrival, context)?;
            Ok((call, begin))
        };
        let (call, begin) = begun.await.map_err(Error::into_status)?;
        let core = Arc::clone(&self.core);
        let sync = async move |ctx: Context| {
            let mut upload = Upload::begin(&core.node_sets, begin)?;
            loop {
                match ctx.unless_cancelled(next(&mut parts, until)).await?? {
                    Some(Part::Chunk(chunk)) => upload.chunk(chunk)?,
                    Some(Part::Commit(commit)) => return upload.commit(&core.node_sets, commit),
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
        };
        call.run(sync).await
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

//! Calls to the provider under test, each as the table of methods says, and each recorded.

mod batches;
mod exchange;

use std::{path::Path, sync::Arc, time::Duration};

use futures::{Stream, stream};
use outrigger_api::{
    Method, MethodRequest,
    v1::{CallContext, GetStatusRequest, SyncNodeSetRequest, SyncNodeSetResponse},
};
use tonic::{metadata::MetadataMap, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use uuid::Uuid;

pub use batches::Answered;
pub use exchange::Listed;

use crate::{
    call_error::CallError,
    connection::{self, Wire},
    inputs::Cluster,
    ledger::Ledger,
};

/// One connection to the provider. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    wire: Arc<Wire>,
    ledger: Arc<Ledger>,
    /// The cluster of the calls that name no other.
    cluster: Cluster,
    /// Takes the place of every deadline of the contract.
    deadline: Option<Duration>,
    /// Metadata of every call.
    metadata: MetadataMap,
}

/// `grpc.health.v1.Health.Check`, with the deadline of the status.
const CHECK: Method = Method {
    name: "Health.Check",
    path: "/grpc.health.v1.Health/Check",
    ..*GetStatusRequest::METHOD
};

impl Client {
    /// Connects to the socket.
    pub(crate) async fn dial(
        socket: &Path,
        authority: &str,
        ledger: Arc<Ledger>,
        cluster: &Cluster,
    ) -> Result<Self, String> {
        let (channel, wire) = connection::dial(socket, authority).await?;
        Ok(Self {
            channel,
            wire: Arc::new(wire),
            ledger,
            cluster: cluster.clone(),
            deadline: None,
            metadata: MetadataMap::new(),
        })
    }

    /// A call with one request and one answer. A context that is absent is that of a new attempt.
    pub async fn call<R: MethodRequest>(&self, request: R) -> Result<R::Response, CallError> {
        let request = self.in_cluster(request);
        let answer: R::Response = self.only(R::METHOD, stream::iter([request])).await?;
        self.ledger.see(R::METHOD.name, &answer);
        Ok(answer)
    }

    /// `NodeSetsService.SyncNodeSet` with these parts; the end of `parts` is the half-close.
    pub async fn sync_node_set(
        &self,
        parts: impl Stream<Item = SyncNodeSetRequest> + Send + 'static,
    ) -> Result<SyncNodeSetResponse, CallError> {
        self.only(SyncNodeSetRequest::METHOD, parts).await
    }

    /// `grpc.health.v1.Health.Check`.
    pub async fn check(&self) -> Result<HealthCheckResponse, CallError> {
        let request = HealthCheckRequest::default();
        self.only(&CHECK, stream::iter([request])).await
    }

    /// The context of a new attempt.
    pub fn context(&self) -> CallContext {
        self.cluster.context()
    }

    fn in_cluster<R: MethodRequest>(&self, mut request: R) -> R {
        if let Some(context) = request.context_mut() {
            context.get_or_insert_with(|| self.context());
        }
        request
    }

    /// The same connection, with calls for a cluster of the same name that has nothing.
    #[must_use]
    pub(crate) fn of_another_cluster(&self) -> Self {
        let mut client = self.clone();
        client.cluster.uid = Uuid::new_v4().to_string();
        client
    }

    /// Cuts the connection: calls on it fail, and the provider sees its end at once.
    pub fn cut(&self) {
        self.wire.cut();
    }

    /// The same connection, with one deadline for every call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            deadline: Some(deadline),
            ..self.clone()
        }
    }

    /// The same connection, with metadata on every call.
    #[must_use]
    pub fn with_metadata(&self, metadata: MetadataMap) -> Self {
        Self {
            metadata,
            ..self.clone()
        }
    }
}

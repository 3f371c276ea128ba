//! A provider over in-memory connections, and a client for it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use outrigger_api::v1::instances_service_client::InstancesServiceClient;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{
    self, BatchGetInstancesRequest, BatchGetInstancesResponse, CallContext, ClusterInfo,
    HandshakeRequest, HandshakeResponse,
};
use outrigger_provider_sdk::{
    Context, Error, InstanceSink, Instances, Lookup, Lookups, Outcome, Provider, ProviderInfo,
    Query, ServeError, Server,
};
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;
use tower::service_fn;

/// A provider whose status a test can change.
#[derive(Clone, Default)]
pub(crate) struct Named {
    pub(crate) info: ProviderInfo,
    pub(crate) status: Arc<Mutex<v1::GetStatusResponse>>,
}

impl Named {
    pub(crate) fn new() -> Self {
        Self {
            info: ProviderInfo::new("test", "1.2.3"),
            status: Arc::new(Mutex::new(status(v1::Readiness::Ready))),
        }
    }
}

pub(crate) fn status(readiness: v1::Readiness) -> v1::GetStatusResponse {
    v1::GetStatusResponse {
        readiness: readiness.into(),
        ..Default::default()
    }
}

impl Provider for Named {
    fn info(&self) -> ProviderInfo {
        self.info.clone()
    }

    fn status(&self) -> v1::GetStatusResponse {
        self.status.lock().clone()
    }
}

/// Instances whose single lookup is a closure, so many at a time.
pub(crate) struct Each<F>(pub(crate) usize, pub(crate) F);

impl<F, R> Instances for Each<F>
where
    F: Fn(Context, v1::Node) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Lookup, Error>> + Send,
{
    fn concurrency(&self) -> usize {
        self.0
    }

    async fn get_instance(
        &self,
        ctx: &Context,
        node: &v1::Node,
        _: &Query,
    ) -> Result<Lookup, Error> {
        (self.1)(ctx.clone(), node.clone()).await
    }
}

/// Instances whose batch is a closure.
pub(crate) struct Batch<F>(pub(crate) F);

impl<F, R> Instances for Batch<F>
where
    F: Fn(Context, Vec<v1::Node>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Lookups, Error>> + Send,
{
    async fn get_instance(&self, _: &Context, _: &v1::Node, _: &Query) -> Result<Lookup, Error> {
        unreachable!("the batch is asked")
    }

    async fn get_instances(
        &self,
        ctx: &Context,
        nodes: &[v1::Node],
        _: &Query,
    ) -> Result<Lookups, Error> {
        (self.0)(ctx.clone(), nodes.to_vec()).await
    }
}

/// Instances that list what a closure sends.
pub(crate) struct List<F>(pub(crate) bool, pub(crate) F);

impl<F> Instances for List<F>
where
    F: AsyncList,
{
    fn capability(&self) -> v1::InstancesCapability {
        v1::InstancesCapability {
            list: self.0,
            ..Default::default()
        }
    }

    async fn get_instance(&self, _: &Context, _: &v1::Node, _: &Query) -> Result<Lookup, Error> {
        unreachable!("the list is asked")
    }

    fn list_instances(
        &self,
        ctx: &Context,
        _: &Query,
        instances: &mut InstanceSink,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        self.1.list(ctx, instances)
    }
}

/// A bound that closures cannot express yet: an async function that borrows and is `Send`.
pub(crate) trait AsyncList: Send + Sync + 'static {
    fn list(
        &self,
        ctx: &Context,
        instances: &mut InstanceSink,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A served provider.
pub(crate) struct Rig {
    connections: mpsc::Sender<io::Result<DuplexStream>>,
    pub(crate) stop: CancellationToken,
    pub(crate) server: JoinSet<Result<(), ServeError>>,
}

impl Rig {
    pub(crate) fn serve(server: Server) -> Self {
        let (connections, incoming) = mpsc::channel(8);
        let stop = CancellationToken::new();
        let shutdown = stop.clone().cancelled_owned();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve_with_incoming(ReceiverStream::new(incoming), shutdown));
        Self {
            connections,
            stop,
            server: tasks,
        }
    }

    pub(crate) async fn dial_raw(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        self.connections.send(Ok(theirs)).await.unwrap();
        ours
    }

    pub(crate) async fn dial(&self) -> Channel {
        channel(self.dial_raw().await).await
    }

    /// Dials and shakes hands.
    pub(crate) async fn instances(&self) -> InstancesServiceClient<Channel> {
        let channel = self.dial().await;
        handshake(channel.clone(), 1, 1).await.unwrap();
        InstancesServiceClient::new(channel).max_decoding_message_size(64 << 20)
    }

    /// The server's end; panics unless it comes within `limit`.
    pub(crate) async fn ended(&mut self, limit: Duration) -> Result<(), ServeError> {
        let ended = tokio::time::timeout(limit, self.server.join_next()).await;
        ended.expect("the server did not end").unwrap().unwrap()
    }
}

pub(crate) async fn channel<S>(stream: S) -> Channel
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut stream = Some(TokioIo::new(stream));
    let connector = service_fn(move |_| {
        std::future::ready(
            stream
                .take()
                .ok_or_else(|| io::Error::other("one connection only")),
        )
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
        .unwrap()
}

pub(crate) async fn handshake(
    channel: Channel,
    min_minor: u32,
    max_minor: u32,
) -> Result<HandshakeResponse, Status> {
    let request = HandshakeRequest {
        min_minor,
        max_minor,
        cluster: Some(ClusterInfo {
            name: "prod".to_owned(),
            uid: "c-uid".to_owned(),
            ..Default::default()
        }),
        max_receive_message_bytes: 8 << 20,
        ..Default::default()
    };
    Ok(ProviderServiceClient::new(channel)
        .handshake(request)
        .await?
        .into_inner())
}

pub(crate) fn context(request_id: &str) -> CallContext {
    let (request_id, cluster_name) = (request_id.to_owned(), "prod".to_owned());
    CallContext {
        request_id,
        cluster_name,
        ..CallContext::default()
    }
}

pub(crate) fn node(name: impl Into<String>) -> v1::Node {
    v1::Node {
        name: name.into(),
        ..Default::default()
    }
}

pub(crate) fn ask(names: &[&str]) -> BatchGetInstancesRequest {
    BatchGetInstancesRequest {
        context: Some(context("req-1")),
        items: names.iter().map(|name| node(*name)).collect(),
        ..Default::default()
    }
}

pub(crate) fn found(name: &str) -> Lookup {
    Outcome::Found(v1::Instance {
        provider_id: format!("test://{name}"),
        ..Default::default()
    })
    .into()
}

pub(crate) async fn lookup(
    client: &mut InstancesServiceClient<Channel>,
    request: BatchGetInstancesRequest,
) -> Result<BatchGetInstancesResponse, Status> {
    Ok(client.batch_get_instances(request).await?.into_inner())
}

/// The reason of a deliberate error; empty for a status that is not the provider's word.
pub(crate) fn reason(status: &Status) -> String {
    status
        .get_details_error_info()
        .map(|info| info.reason)
        .unwrap_or_default()
}

/// A provider that finds every node.
pub(crate) fn finds_all() -> Server {
    Server::new(Named::new()).instances(Each(8, async |_: Context, node: v1::Node| {
        Ok(found(&node.name))
    }))
}

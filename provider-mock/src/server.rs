//! Serves the provider with its faults in front.
//!
//! ```text
//!   caller ──► FaultLayer ──► hop in memory ──► outrigger_provider_sdk::Server
//! ```
//!
//! The SDK's server is exactly the one that any vendor runs; what spoils its answers stands outside
//! of it, as a bad network or a bad release would.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};
use http::{Request, Response, Uri};
use hyper::body::{Body as HttpBody, Bytes};
use hyper_util::rt::TokioIo;
use outrigger_provider_sdk::{BoxError, ServeError, Server};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint};
use tower::{Service, service_fn};

use crate::provider::MockProvider;
use crate::socket::Socket;
use crate::wire::FaultLayer;

/// Bytes that the hop holds in each direction.
const HOP_BUFFER: usize = 256 << 10;

/// How long the last answers may take to be read.
const HANG_UP: Duration = Duration::from_secs(2);

/// Pause after a failed accept, which usually means that there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A [`MockProvider`] with the faults of its cloud in front, ready to be served.
#[derive(Debug)]
pub struct MockServer {
    provider: MockProvider,
}

impl MockServer {
    /// Serves this provider.
    pub fn new(provider: MockProvider) -> Self {
        Self { provider }
    }

    /// Serves on a Unix socket until `shutdown`, then drains and removes the socket.
    pub async fn serve_on(
        self,
        socket: Socket,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let incoming = futures::stream::unfold(socket, async |socket| {
            let accepted = socket.accept().await;
            if let Err(error) = &accepted {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Some((accepted, socket))
        });
        // A failed accept is no end.
        let incoming = incoming.filter_map(async |accepted| accepted.ok().map(Ok::<_, io::Error>));
        self.serve_with_incoming(incoming, shutdown).await
    }

    /// Serves connections of any kind, `tokio::io::duplex` included, until `shutdown`, then drains.
    /// Time is tokio's alone, so that a test with a paused clock can drive both ends.
    pub async fn serve_with_incoming<I, IO, E>(
        self,
        incoming: I,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError>
    where
        I: Stream<Item = Result<IO, E>>,
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
        E: Into<BoxError>,
    {
        let cloud = self.provider.cloud().clone();
        let (hops, dialed) = mpsc::unbounded_channel();
        let server = Server::new(self.provider.clone()).instances(self.provider);
        let shutdown = async {
            shutdown.await;
            // A call that hangs would hold up the end.
            cloud.clear_faults();
        };
        let dialed = UnboundedReceiverStream::new(dialed).map(Ok::<DuplexStream, Infallible>);
        let provider = server.serve_with_incoming(dialed, shutdown);

        let mut routes = Routes::default();
        let axum = routes.axum_router_mut();
        *axum = std::mem::take(axum).fallback_service(Hop::new(hops));
        let hang_up = CancellationToken::new();
        let front = tonic::transport::Server::builder()
            .layer(FaultLayer::new(cloud.clone()))
            .add_routes(routes)
            // tonic takes the end of `incoming` for the end of the server.
            .serve_with_incoming_shutdown(
                incoming.chain(futures::stream::pending()),
                hang_up.clone().cancelled_owned(),
            );
        tokio::pin!(front);
        tokio::select! {
            ended = provider => ended?,
            ended = &mut front => return ended.map_err(ServeError::Transport),
        }
        hang_up.cancel();
        match tokio::time::timeout(HANG_UP, front).await {
            Ok(ended) => ended.map_err(ServeError::Transport),
            Err(_) => Ok(()),
        }
    }
}

/// Passes calls on to the SDK's server.
#[derive(Debug, Clone)]
struct Hop {
    channel: Channel,
}

impl Hop {
    /// Dials by handing the other end of a pipe to `hops`.
    fn new(hops: mpsc::UnboundedSender<DuplexStream>) -> Self {
        let dial = service_fn(move |_: Uri| {
            let (here, there) = tokio::io::duplex(HOP_BUFFER);
            let sent = hops
                .send(there)
                .map_err(|_| io::Error::other("the provider has ended"));
            std::future::ready(sent.map(|()| TokioIo::new(here)))
        });
        Self {
            channel: Endpoint::from_static("http://localhost").connect_with_connector_lazy(dial),
        }
    }
}

impl<B> Service<Request<B>> for Hop
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut channel = self.channel.clone();
        async move {
            let answered = async {
                futures::future::poll_fn(|cx| channel.poll_ready(cx)).await?;
                channel.call(request.map(Body::new)).await
            };
            let answered: Result<_, tonic::transport::Error> = answered.await;
            Ok(answered.unwrap_or_else(|error| Status::from_error(error.into()).into_http()))
        }
        .boxed()
    }
}

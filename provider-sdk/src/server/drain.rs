//! The end of a server: refuse new calls, wait for running ones, remove the socket file, close the connections.
//!
//! `Server::serve` and its relatives run it. The order matters: while a call runs, the file is there and a controller that
//! connects gets the answer `SHUTTING_DOWN` rather than no server. All of it fits into the 30 s that a Pod has by default.

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, Router};

use super::core::Core;
use crate::socket::SocketFile;
use crate::{BoxError, Listener, ServeError};

/// How long running calls have to end by themselves. With the two below less than the 30 s that
/// Kubernetes waits by default.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long they have once they are cancelled.
const GRACE: Duration = Duration::from_secs(5);

/// How long callers have to read the last answers.
const HANG_UP: Duration = Duration::from_secs(2);

/// Serves a socket; its file goes when no call runs any more: until then a caller that connects
/// gets an answer.
pub(super) async fn serve_on(
    core: &Core,
    router: Router,
    listener: Listener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (incoming, file) = listener.split();
    serve(core, router, incoming, shutdown, Some(file)).await
}

/// Serves until `shutdown`, then drains. `file` is dropped before the connections are closed.
pub(super) async fn serve<I, IO, E>(
    core: &Core,
    router: Router,
    incoming: I,
    shutdown: impl Future<Output = ()>,
    file: Option<SocketFile>,
) -> Result<(), ServeError>
where
    I: Stream<Item = Result<IO, E>>,
    IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    E: Into<BoxError>,
{
    // To tonic the end of `incoming` is the end of the server.
    let incoming = incoming.chain(futures::stream::pending());
    let hang_up = CancellationToken::new();
    let serving = router.serve_with_incoming_shutdown(incoming, hang_up.clone().cancelled_owned());
    tokio::pin!(serving);

    let drained = async {
        shutdown.await;
        if let Err(running) = core.running.drain(PATIENCE, GRACE).await {
            tracing::warn!(running, "calls still run and are dropped");
        }
        drop(file);
        hang_up.cancel();
    };
    tokio::select! {
        ended = &mut serving => return ended.map_err(transport),
        () = drained => {}
    }
    let Ok(ended) = tokio::time::timeout(HANG_UP, serving).await else {
        tracing::info!("a connection was still open and is dropped");
        return Ok(());
    };
    ended.map_err(transport)
}

fn transport(error: tonic::transport::Error) -> ServeError {
    ServeError::Transport(error.into())
}

//! Bytes to and from the provider, and the one HTTP/2 connection over them.
//!
//! [`Connect`] makes the bytes: a Unix socket, or in tests one end of a pipe. A connection never becomes another one, so
//! that no call reaches a process without a handshake.

use std::{fmt, io, pin::Pin};

use hyper::{
    client::conn::http2::{self, SendRequest},
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::body::Body;

use super::channel::Channel;

/// Bytes of headers or trailers that HTTP/2 accepts: more ends the connection, and all calls on it.
const MAX_HEADER_LIST: u32 = 4 << 20;

/// A connected stream of bytes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// A stream on its way.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn ByteStream>>> + Send>>;

/// Makes connections to the provider: a [`super::ProviderSocket`], or in tests one end of a pipe.
pub trait Connect: fmt::Display + Send + Sync + 'static {
    /// Makes one. `Display` names the endpoint, for people.
    fn connect(&self) -> Connecting;
}

/// One connection, from dialling to its end. It never becomes another one, as a channel of tonic's does: a call that
/// waits must not reach a process that no handshake was made with.
///
/// Dropping it leaves calls in flight alone; cancelling `aborted` ends them too.
#[derive(Clone, Debug)]
pub(super) struct ProviderConnection {
    requests: SendRequest<Body>,
    /// Cancelled when the connection takes no more calls: it has ended, whoever ended it, or the provider has sent GOAWAY, and
    /// a call has found out. In that case the calls in flight go on.
    pub(super) closed: CancellationToken,
    /// Cancelled when this process ends the connection under the calls on it.
    pub(super) aborted: CancellationToken,
}

impl ProviderConnection {
    /// Dials. The connection's tasks are spawned on `tasks`, and end with it or with `cancel`.
    pub(super) async fn dial(
        connector: &dyn Connect,
        tasks: &TaskTracker,
        cancel: &CancellationToken,
    ) -> io::Result<Self> {
        let (closed, aborted) = (CancellationToken::new(), cancel.child_token());
        let tasks = ConnectionTasks {
            tasks: tasks.clone(),
            abort: aborted.clone(),
        };
        let stream = TokioIo::new(connector.connect().await?);
        // No keepalive pings: a Go server with defaults answers those by closing.
        let handshake = http2::Builder::new(tasks.clone())
            .max_header_list_size(MAX_HEADER_LIST)
            .handshake(stream)
            .await;
        let (requests, connection) = handshake.map_err(io::Error::other)?;
        let at_end = closed.clone().drop_guard();
        tasks.execute(async move {
            let _at_end = at_end;
            // Calls have its error.
            let _ = connection.await;
        });
        Ok(Self {
            requests,
            closed,
            aborted,
        })
    }

    /// Where calls go, in messages of at most so many bytes.
    pub(super) fn channel(&self, max_send: usize) -> Channel {
        Channel {
            requests: self.requests.clone(),
            max_send,
        }
    }
}

/// Spawns the connection's tasks where they are waited for and can be ended.
#[derive(Clone)]
struct ConnectionTasks {
    tasks: TaskTracker,
    abort: CancellationToken,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for ConnectionTasks {
    fn execute(&self, task: F) {
        let abort = self.abort.clone();
        self.tasks
            .spawn(async move { abort.run_until_cancelled(task).await });
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use http::Uri;
    use outrigger_api::v1::{GetStatusRequest, provider_service_client::ProviderServiceClient};
    use tokio::{net::UnixListener, time::timeout};

    use super::*;
    use crate::ProviderSocket;

    const SOON: Duration = Duration::from_secs(10);

    fn socket(path: &Path) -> ProviderSocket {
        let endpoint = format!("unix://{}", path.display()).parse().unwrap();
        ProviderSocket::new(endpoint, [])
    }

    #[tokio::test]
    async fn the_end_of_a_real_socket_is_signalled_and_no_second_connection_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("provider.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let socket = socket(&path);
        let tasks = TaskTracker::new();
        let cancel = CancellationToken::new();
        let connection = ProviderConnection::dial(&socket, &tasks, &cancel)
            .await
            .unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        {
            let closed = connection.closed.cancelled();
            tokio::pin!(closed);
            assert!(futures::poll!(&mut closed).is_pending());
            drop(peer);
            timeout(SOON, closed).await.unwrap();
        }
        // A channel of tonic would connect again for this call; the listener is still there.
        let origin = Uri::from_static("http://localhost");
        let mut client = ProviderServiceClient::with_origin(connection.channel(usize::MAX), origin);
        timeout(SOON, client.get_status(GetStatusRequest {}))
            .await
            .unwrap()
            .unwrap_err();
        let accept = listener.accept();
        tokio::pin!(accept);
        assert!(futures::poll!(&mut accept).is_pending());
        drop((client, connection));
        tasks.close();
        timeout(SOON, tasks.wait()).await.unwrap();
    }

    #[tokio::test]
    async fn an_aborted_connection_closes_the_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("provider.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let socket = socket(&path);
        let tasks = TaskTracker::new();
        let connection = ProviderConnection::dial(&socket, &tasks, &CancellationToken::new())
            .await
            .unwrap();
        // Never read from: a provider that hangs.
        let (_peer, _) = listener.accept().await.unwrap();
        let origin = Uri::from_static("http://localhost");
        let mut client = ProviderServiceClient::with_origin(connection.channel(usize::MAX), origin);
        let call = client.get_status(GetStatusRequest {});
        let abort = async {
            tokio::task::yield_now().await;
            connection.aborted.cancel();
        };
        let (ended, ()) = timeout(SOON, async { tokio::join!(call, abort) })
            .await
            .unwrap();
        ended.unwrap_err();
        timeout(SOON, connection.closed.cancelled()).await.unwrap();
        drop((client, connection));
        tasks.close();
        timeout(SOON, tasks.wait()).await.unwrap();
    }

    #[tokio::test]
    async fn a_socket_without_a_listener_is_an_error_that_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("provider.sock");
        let socket = socket(&path);
        let tasks = TaskTracker::new();
        let dial = ProviderConnection::dial(&socket, &tasks, &CancellationToken::new()).await;
        let error = dial.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}

//! Bytes to and from the provider, and the one HTTP/2 connection over them.

use std::{
    error::Error as _,
    fmt, future, io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tonic::transport::Channel;
use tower::service_fn;

use super::details::Checked;

/// Bytes of headers or trailers that HTTP/2 accepts: more ends the connection, and all calls on it. So it
/// is far more than [`super::details`] lets one call have.
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

impl<T: Connect + ?Sized> Connect for Box<T> {
    fn connect(&self) -> Connecting {
        (**self).connect()
    }
}

/// One connection, from dialling to its end. It never becomes another one: a call that waits must
/// not reach a process that no handshake was made with.
///
/// Dropping it leaves calls in flight alone; [`ProviderConnection::abort`] ends them too.
pub(super) struct ProviderConnection {
    channel: Checked,
    closed: CancellationToken,
    abort: CancellationToken,
}

impl ProviderConnection {
    /// Dials. The connection's tasks are spawned on `tasks`, and end with it or with `cancel`.
    pub(super) async fn dial(
        connector: &dyn Connect,
        tasks: &TaskTracker,
        cancel: &CancellationToken,
    ) -> io::Result<Self> {
        let closed = CancellationToken::new();
        let abort = cancel.child_token();
        let mut io = Some(TokioIo::new(Watched {
            io: connector.connect().await?,
            closed: closed.clone().drop_guard(),
        }));
        // tonic reconnects inside a channel. Here it is refused: see the type.
        let once = service_fn(move |_| {
            let gone = || io::Error::new(io::ErrorKind::NotConnected, "the connection is gone");
            future::ready(io.take().ok_or_else(gone))
        });
        // The authority that every HTTP/2 server accepts; a path in it is refused by many. No
        // keepalive pings: a Go server with defaults answers those by closing.
        let channel = Channel::from_static("http://localhost")
            .http2_max_header_list_size(MAX_HEADER_LIST)
            .executor(Owned {
                tasks: tasks.clone(),
                abort: abort.clone(),
            })
            .connect_with_connector(once)
            .await
            // Its own text is "transport error" and no more.
            .map_err(|error| match error.source() {
                Some(source) => io::Error::other(source.to_string()),
                None => io::Error::other(error),
            })?;
        Ok(Self {
            channel: Checked::new(channel),
            closed,
            abort,
        })
    }

    /// Where calls go.
    pub(super) fn channel(&self) -> Checked {
        self.channel.clone()
    }

    /// Waits until the connection takes no more calls: it has ended, whoever ended it, or a call has found that it takes
    /// none since the provider has sent GOAWAY. In that case the calls in flight go on.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// The event that [`Self::closed`] waits for.
    pub(super) fn closed_token(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Cancelled when this process has ended the connection and all calls on it.
    pub(super) fn aborted(&self) -> CancellationToken {
        self.abort.clone()
    }

    /// Ends the connection and all calls on it.
    pub(super) fn abort(&self) {
        self.abort.cancel();
    }
}

/// A stream that notifies at its end, after an error, or when dropped.
struct Watched {
    io: Box<dyn ByteStream>,
    closed: DropGuard,
}

impl Watched {
    fn watch<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(result, Poll::Ready(Err(_))) {
            self.closed.token().cancel();
        }
        result
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (room, before) = (buf.remaining(), buf.filled().len());
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        if matches!(result, Poll::Ready(Ok(()))) && room > 0 {
            let read = buf.filled().get(before..).unwrap_or_default();
            if read.is_empty() {
                self.closed.token().cancel();
            }
        }
        self.watch(result)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.watch(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bytes);
        self.watch(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_flush(cx);
        self.watch(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_shutdown(cx);
        self.watch(result)
    }
}

/// Runs tonic's and hyper's tasks in a set whose end is awaited.
struct Owned {
    tasks: TaskTracker,
    abort: CancellationToken,
}

impl Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for Owned {
    fn execute(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let abort = self.abort.clone();
        self.tasks
            .spawn(async move { abort.run_until_cancelled(task).await });
    }
}

#[cfg(test)]
mod tests;

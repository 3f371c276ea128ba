//! The connections of callers, which can be closed while the process lives on: what a caller sees of
//! a broken relay, or of a container that is restored.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use outrigger_provider_sdk::Listener;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::{Connected, UdsConnectInfo};

/// All connections of a mock.
#[derive(Debug, Default)]
pub struct Connections {
    /// Closes those that were accepted since the last time.
    close: Mutex<CancellationToken>,
    /// Until when a new one is left unanswered.
    held_until: Mutex<Option<Instant>>,
    open: Arc<AtomicUsize>,
    accepted: AtomicU64,
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The process.
    pub caller: UdsConnectInfo,
    /// Number of the connection, in the order in which they were accepted.
    pub number: u64,
    /// Closes the connection.
    pub close: CancellationToken,
}

impl Connections {
    /// Closes all, and leaves new ones unanswered for a time. Returns how many there were.
    pub(crate) fn close(&self, hold: Duration) -> usize {
        *self.held_until.lock() = Instant::now().checked_add(hold);
        let open = self.open.load(Ordering::Relaxed);
        std::mem::take(&mut *self.close.lock()).cancel();
        open
    }

    async fn held(&self) {
        loop {
            let until = *self.held_until.lock();
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// The connections that a listener accepts.
    pub fn incoming(
        self: Arc<Self>,
        listener: Listener,
    ) -> impl Stream<Item = io::Result<Connection>> + Send {
        futures::stream::unfold((self, listener), |(this, listener)| async move {
            let accepted = listener.accept().await;
            this.held().await;
            let accepted = accepted.map(|stream| this.accepted(stream));
            Some((accepted, (this, listener)))
        })
    }

    fn accepted(&self, stream: UnixStream) -> Connection {
        self.open.fetch_add(1, Ordering::Relaxed);
        let close = self.close.lock().child_token();
        Connection {
            peer: Peer {
                caller: stream.connect_info(),
                number: self.accepted.fetch_add(1, Ordering::Relaxed),
                close: close.clone(),
            },
            stream,
            closing: Box::pin(close.cancelled_owned()),
            is_closed: false,
            open: Arc::clone(&self.open),
        }
    }
}

/// A connection of one caller.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    peer: Peer,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    is_closed: bool,
    open: Arc<AtomicUsize>,
}

impl Connection {
    /// Ready once it is closed; wakes the caller when that happens.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_closed && self.closing.as_mut().poll(cx).is_ready() {
            self.is_closed = true;
        }
        if self.is_closed {
            Poll::Ready(io::ErrorKind::ConnectionReset.into())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_closed(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_closed {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

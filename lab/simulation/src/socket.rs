//! The socket between a controller and its provider: pipes in memory.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use futures::{
    Stream, StreamExt as _,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
};
use outrigger_provider::{ByteStream, Connect, Connecting};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tonic::transport::server::Connected;

/// Bytes that a pipe holds before its writer waits.
const ROOM: usize = 1 << 18;

/// A place where one process listens and another connects. Clones are the same place.
#[derive(Clone, Debug, Default)]
pub struct Socket(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    listener: Mutex<Option<UnboundedSender<Pipe>>>,
    writes: AtomicU64,
}

impl Socket {
    /// The connections from now on. A listener from before gets no more.
    pub fn listen(&self) -> impl Stream<Item = io::Result<Pipe>> + Send + use<> {
        let (sender, receiver): (_, UnboundedReceiver<Pipe>) = unbounded();
        *self.0.listener.lock() = Some(sender);
        receiver.map(Ok)
    }

    /// How often something was written, in both directions.
    pub fn writes(&self) -> u64 {
        self.0.writes.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulated socket")
    }
}

impl Connect for Socket {
    fn connect(&self) -> Connecting {
        let (here, there) = tokio::io::duplex(ROOM);
        let [here, there] = [here, there].map(|end| Pipe {
            end,
            socket: Arc::clone(&self.0),
        });
        let listener = self.0.listener.lock();
        let is_open = listener
            .as_ref()
            .is_some_and(|listener| listener.unbounded_send(there).is_ok());
        Box::pin(std::future::ready(if is_open {
            Ok(Box::new(here) as Box<dyn ByteStream>)
        } else {
            Err(io::ErrorKind::ConnectionRefused.into())
        }))
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Pipe {
    end: DuplexStream,
    socket: Arc<Shared>,
}

impl Connected for Pipe {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.end).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.socket.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.end).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.end).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.end).poll_shutdown(cx)
    }
}

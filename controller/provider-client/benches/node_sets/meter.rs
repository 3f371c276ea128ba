//! Counts the bytes on the way to the provider and back.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use outrigger_provider_client::{ByteStream, Connect, Connecting, ProviderSocket};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// A socket whose connections are measured.
#[derive(Clone)]
pub(crate) struct Meter {
    socket: ProviderSocket,
    bytes: Arc<Bytes>,
}

#[derive(Default)]
struct Bytes {
    sent: AtomicU64,
    received: AtomicU64,
}

/// The cost of some work.
pub(crate) struct Reading {
    calls: usize,
    pub(crate) sent: u64,
    received: u64,
    pub(crate) took: Duration,
}

impl Reading {
    /// The same with the number of its calls.
    pub(crate) fn of(self, calls: usize) -> Self {
        Self { calls, ..self }
    }

    pub(crate) fn print(&self, what: &str) {
        let (sent, received, took) = (self.sent, self.received, self.took.as_secs_f64());
        println!(
            "{what:34}{:>8}{sent:>14}{received:>14}{took:>10.3}",
            self.calls
        );
    }
}

impl Meter {
    pub(crate) fn new(socket: ProviderSocket) -> Self {
        Self {
            socket,
            bytes: Arc::default(),
        }
    }

    pub(crate) async fn read(&self, work: impl Future<Output = ()>) -> Reading {
        let before = self.bytes.now();
        let started = Instant::now();
        work.await;
        let took = started.elapsed();
        let after = self.bytes.now();
        Reading {
            calls: 0,
            sent: after.0 - before.0,
            received: after.1 - before.1,
            took,
        }
    }
}

impl Bytes {
    fn now(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.sent), read(&self.received))
    }
}

impl fmt::Display for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

impl Connect for Meter {
    fn connect(&self) -> Connecting {
        let (connecting, bytes) = (self.socket.connect(), Arc::clone(&self.bytes));
        Box::pin(async move {
            let io = connecting.await?;
            Ok(Box::new(Metered { io, bytes }) as Box<dyn ByteStream>)
        })
    }
}

struct Metered {
    io: Box<dyn ByteStream>,
    bytes: Arc<Bytes>,
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        let read = (buf.filled().len() - before) as u64;
        self.bytes.received.fetch_add(read, Ordering::Relaxed);
        result
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = result {
            self.bytes.sent.fetch_add(written as u64, Ordering::Relaxed);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

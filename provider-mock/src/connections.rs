//! The connections of callers, each with a number.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use outrigger_provider_sdk::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Number of the connection, in the order in which they were accepted.
    pub number: u64,
}

/// The connections that a listener accepts.
pub fn incoming(listener: Listener) -> impl Stream<Item = io::Result<Connection>> + Send {
    futures::stream::unfold((0, listener), |(number, listener)| async move {
        let accepted = listener.accept().await;
        let accepted = accepted.map(|stream| Connection {
            peer: Peer { number },
            stream,
        });
        Some((accepted, (number + 1, listener)))
    })
}

/// A connection of one caller.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    peer: Peer,
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
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

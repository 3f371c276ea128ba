//! Mistakes about the socket and its connections.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tonic::transport::server::{Connected, UdsConnectInfo};

/// The manner in which a defective provider listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Listening {
    /// Mode of the socket.
    pub(super) mode: Option<u32>,
    /// A connection on which nothing came for so long is closed.
    pub(super) idle: Option<Duration>,
    /// A socket that is there already is taken for that of a process that lives.
    pub(super) keeps_stale: bool,
    /// A socket that is there already is taken for that of a process that has ended.
    pub(super) takes_live: bool,
    /// The end of the process.
    pub(super) end: End,
}

/// How a provider ends after SIGTERM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum End {
    /// In good order.
    #[default]
    Clean,
    /// The socket is there after it.
    LeavesSocket,
    /// With an error.
    Fails,
}

impl Listening {
    /// Before the socket is made.
    pub(super) fn begins(self, socket: &Path) -> io::Result<()> {
        if self.keeps_stale && socket.exists() {
            std::fs::remove_file(socket)?;
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if self.takes_live && socket.exists() {
            std::fs::remove_file(socket)?;
            std::fs::remove_file(format!("{}.ctl", socket.display()))?;
        }
        Ok(())
    }

    /// Once it is made.
    pub(super) fn made(self, socket: &Path) -> io::Result<()> {
        match self.mode {
            Some(mode) => std::fs::set_permissions(socket, Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }

    /// After the last call.
    pub(super) fn ended(self, socket: &Path) -> io::Result<()> {
        match self.end {
            End::Clean => Ok(()),
            // Dropped, it leaves its file.
            End::LeavesSocket => std::os::unix::net::UnixListener::bind(socket).map(drop),
            End::Fails => Err(io::Error::other("terminated")),
        }
    }

    /// Numbers the connections, and closes those that are idle.
    pub(super) fn guard<C>(
        self,
        incoming: impl Stream<Item = io::Result<C>> + Send,
    ) -> impl Stream<Item = io::Result<Guarded<C>>> + Send {
        let guard = move |(number, accepted): (usize, io::Result<C>)| {
            accepted.map(|connection| Guarded {
                connection,
                number: number as u64,
                idle: self.idle.map(|limit| (limit, Box::pin(sleep(limit)))),
            })
        };
        incoming.enumerate().map(guard)
    }
}

/// A connection of a defective provider.
#[derive(Debug)]
pub struct Guarded<C> {
    connection: C,
    number: u64,
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
}

/// The caller of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub(super) caller: UdsConnectInfo,
    pub(super) number: u64,
}

impl<C: Connected<ConnectInfo = UdsConnectInfo>> Connected for Guarded<C> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer {
            caller: self.connection.connect_info(),
            number: self.number,
        }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Guarded<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.connection).poll_read(cx, buf);
        let Some((limit, idle)) = &mut self.idle else {
            return read;
        };
        if read.is_ready() {
            idle.as_mut().reset(Instant::now() + *limit);
            return read;
        }
        // An expired connection looks like one that its other end has closed.
        idle.as_mut().poll(cx).map(|()| Ok(()))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Guarded<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

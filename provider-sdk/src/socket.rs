//! The Unix socket of a provider: [`Endpoint`] names it, [`Listener`] makes it and accepts connections.
//!
//! Every start goes the same way: make the directory, lock it, ask a socket that is there whether it is served, make a new
//! one beside it, give it its mode, listen, and rename it into place. So a controller never finds a socket that it may not
//! open or that does not answer. A socket that a dead process left is replaced; a live one, or a file of another kind, is
//! an error and stays.

mod endpoint;
mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::sleep;
use tokio_stream::Stream;
use tokio_stream::wrappers::UnixListenerStream;

pub use endpoint::{Endpoint, InvalidEndpoint};
pub(crate) use file::SocketFile;

/// Time limit of the check for a live provider.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failed accept: out of file descriptors, the next one fails at once as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a socket could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another provider answers there.
    #[error(
        "another process serves {}; stop it or choose another endpoint",
        path.display()
    )]
    Live {
        /// Where.
        path: PathBuf,
    },
    /// Something that is not a socket is there; it is left alone.
    #[error(
        "{} exists and is not a socket; remove it or choose another endpoint",
        path.display()
    )]
    NotASocket {
        /// Where.
        path: PathBuf,
    },
    /// Another process is making a socket in the same directory and does not end.
    #[error(
        "the directory {} is locked by another process that makes a socket in it",
        directory.display()
    )]
    Locked {
        /// Where.
        directory: PathBuf,
    },
    /// The operating system refused a step.
    #[error("cannot {step} {}: {source}", path.display())]
    Io {
        /// The failed step.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl SocketError {
    fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            step,
            path: path.to_owned(),
            source,
        }
    }
}

/// A Unix socket that is listened on, with the care that [`Server::serve`](crate::Server::serve)
/// takes of its own. For a second socket of a provider, or to know that it is there before serving.
///
/// Dropping it removes the file, if that is still this one.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    file: SocketFile,
}

impl Listener {
    /// Makes the socket, with mode 0660, and listens. A stale one is replaced, a live one refused.
    ///
    /// # Errors
    ///
    /// A [`SocketError`] says which step failed, at which path.
    ///
    /// # Cancellation
    ///
    /// Safe to drop; a temporary file may stay and is replaced by the next start.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self, SocketError> {
        let path = endpoint.path();
        file::make_directory(endpoint.directory())?;
        // Two that start together would each find no listener, and the later rename would win.
        let _lock = file::lock(endpoint.directory()).await?;
        refuse_live(path).await?;
        let (listener, file) = file::listen(endpoint)?;
        let listener =
            UnixListener::from_std(listener).map_err(SocketError::io("listen on", path))?;
        Ok(Self { listener, file })
    }

    /// The next connection. A failure is logged and followed by a short pause, so that a caller may
    /// just ask again.
    ///
    /// # Cancellation
    ///
    /// Safe to drop: no connection is lost.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        paused(self.listener.accept().await.map(|(stream, _)| stream)).await
    }

    /// The connections, and the file apart from them: it goes before the last of them ends.
    pub(crate) fn split(self) -> (impl Stream<Item = io::Result<UnixStream>>, SocketFile) {
        (
            UnixListenerStream::new(self.listener).then(paused),
            self.file,
        )
    }
}

async fn paused(accepted: io::Result<UnixStream>) -> io::Result<UnixStream> {
    if let Err(error) = &accepted {
        tracing::warn!(%error, "cannot accept a connection");
        sleep(ACCEPT_PAUSE).await;
    }
    accepted
}

/// Renaming over a live socket succeeds and cuts its owner off, so it is asked first.
async fn refuse_live(path: &Path) -> Result<(), SocketError> {
    if !file::is_socket(path)? {
        return Ok(());
    }
    let live = || SocketError::Live {
        path: path.to_owned(),
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) => match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                tracing::info!(path = %path.display(), "taking over a stale socket");
                Ok(())
            }
            io::ErrorKind::NotFound => Ok(()),
            // Its queue of connections is full.
            io::ErrorKind::WouldBlock => Err(live()),
            _ => Err(SocketError::io("find out whether a provider serves", path)(
                error,
            )),
        },
        Ok(Ok(_)) | Err(_) => Err(live()),
    }
}

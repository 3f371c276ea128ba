//! [`ServeError`]: why a server did not start, or did not end in order. An end by a signal is `Ok`.

use std::io;

use crate::{BoxError, SocketError};

/// Why a server did not start, or ended other than by being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The socket could not be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Signals cannot be caught.
    #[error("cannot catch SIGTERM and SIGINT: {0}")]
    Signals(io::Error),
    /// The transport failed.
    #[error("the gRPC server failed: {0}")]
    Transport(BoxError),
    /// A second signal came while running calls were waited for.
    #[error("ended by a second {signal} before all calls had ended")]
    Interrupted {
        /// Its name.
        signal: &'static str,
    },
}

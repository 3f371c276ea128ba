//! SIGTERM and SIGINT, which mean the same: the first begins the drain, the second ends the process at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::ServeError;

/// Both signals, caught from the moment this exists: as process 1 of a container a provider would
/// not even die of one that it does not catch.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, ServeError> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(ServeError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(ServeError::Signals)?,
        })
    }

    /// The name of the next signal.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

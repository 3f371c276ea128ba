//! Termination signals.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Error;

/// Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed.
#[derive(Debug)]
pub(super) struct Signals([Signal; 3]);

impl Signals {
    /// From now on these signals no longer kill the process.
    pub(super) fn install() -> Result<Self, Error> {
        let install = || -> io::Result<_> {
            Ok(Self([
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ]))
        };
        install().map_err(Error::io("wait for signals"))
    }

    /// Returns when the next one comes.
    pub(super) async fn next(&mut self) {
        let Self([interrupt, terminate, hangup]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

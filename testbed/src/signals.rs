//! Termination signals, caught so that everything that was started is ended in order.

use std::{future::poll_fn, io, task::Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{Error, Result};

/// Signals that no longer kill the process.
#[derive(Debug)]
pub struct Signals(Vec<Signal>);

impl Signals {
    /// Catches Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed, which `nohup` would hold off. To be called before
    /// anything is started: a signal must not find only half of it.
    pub fn install() -> Result<Self> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        let signals = kinds.into_iter().map(signal);
        let signals = signals.collect::<io::Result<_>>();
        signals.map(Self).map_err(Error::io("wait for signals"))
    }

    /// Returns when the next one comes.
    pub async fn next(&mut self) {
        poll_fn(|context| {
            let mut signals = self.0.iter_mut();
            if signals.any(|signal| signal.poll_recv(context).is_ready()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

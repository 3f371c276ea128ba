//! Accepts connections, with a pause after a failure that goes on.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep_until},
};
use tracing::warn;

use outrigger_runtime::telemetry::Repeats;

/// After a failure of this process or of the node: out of file descriptors, mostly, where others must be closed first.
const PAUSE: Duration = Duration::from_secs(1);

/// Has connections that wait to be accepted.
pub(super) trait Listener {
    type Connection;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Connection>>;
}

impl Listener for TcpListener {
    type Connection = (TcpStream, SocketAddr);

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Connection>> {
        Self::poll_accept(self, cx)
    }
}

/// Accepts one connection after the other.
pub(super) struct Accepting<L> {
    listener: L,
    not_before: Instant,
    repeats: Repeats,
}

impl<L: Listener> Accepting<L> {
    pub(super) fn new(listener: L) -> Self {
        Self {
            listener,
            not_before: Instant::now(),
            repeats: Repeats::default(),
        }
    }

    /// The next connection. Dropping the future loses none, and does not shorten the pause.
    pub(super) async fn next(&mut self) -> L::Connection {
        loop {
            sleep_until(self.not_before).await;
            let accepted = poll_fn(|cx| self.listener.poll_accept(cx));
            match accepted.await {
                Ok(accepted) => return accepted,
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    self.not_before = Instant::now() + PAUSE;
                    if let Some(others) = self.repeats.due("") {
                        warn!(%error, others, "HTTPS connections cannot be accepted");
                    }
                }
            }
        }
    }
}

/// The client has gone: the next one need not wait for that.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};

    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use tokio::time::timeout;

    use super::*;
    use outrigger_runtime::fixture::Warnings;

    /// Fails so many times in this way, then accepts one connection.
    struct Failing {
        error: fn() -> io::Error,
        failures: u32,
        tries: AtomicU32,
    }

    impl Listener for Failing {
        type Connection = ();

        fn poll_accept(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            let before = self.tries.fetch_add(1, Relaxed);
            if before < self.failures {
                return Poll::Ready(Err((self.error)()));
            }
            Poll::Ready(Ok(()))
        }
    }

    fn accepting(failures: u32, error: fn() -> io::Error) -> Accepting<Failing> {
        Accepting::new(Failing {
            error,
            failures,
            tries: AtomicU32::new(0),
        })
    }

    /// The server's loop drops the future whenever a connection ends.
    #[tokio::test(start_paused = true)]
    async fn the_pause_holds_though_the_future_is_dropped_and_is_logged_once() {
        const EMFILE: i32 = 24;
        let warnings = Warnings::listen();
        let mut accepting = accepting(10_000, || io::Error::from_raw_os_error(EMFILE));
        for _ in 0..4_000 {
            let _ = timeout(Duration::from_millis(10), accepting.next()).await;
        }
        let tries = accepting.listener.tries.load(Relaxed);
        assert!((39..=41).contains(&tries), "{tries} tries in 40 s");
        assert_eq!(warnings.with("cannot be accepted").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_gone_delays_no_other() {
        let mut accepting = accepting(100, || io::ErrorKind::ConnectionAborted.into());
        let began = Instant::now();
        accepting.next().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

//! Collects the warnings that an operator reads at the default verbosity.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

pub mod near;

use std::{
    cell::Cell,
    io::{Result, Write},
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use tracing::{
    Dispatch, Level,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::fmt;

thread_local! {
    static IS_SAMPLED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `make`, whose result has a series in each family of metrics that it makes on this thread.
pub fn sampled<T>(make: impl FnOnce() -> T) -> T {
    IS_SAMPLED.set(true);
    let made = make();
    IS_SAMPLED.set(false);
    made
}

/// The value of that series' labels, which has to be escaped; none where no series is asked for.
pub(crate) fn sample() -> Option<&'static str> {
    IS_SAMPLED.get().then_some("a \"b\"\n\\")
}

/// Beside a single subscriber, tracing asks the thread that reaches a line first whether it is wanted, and
/// remembers the answer for all threads.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Log lines of this thread with level WARN or above, from [`Warnings::listen`] on.
pub struct Warnings {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Warnings {
    pub fn listen() -> Self {
        Self::and_milder(Level::WARN)
    }

    /// All lines down to `level`.
    pub fn and_milder(level: Level) -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::default();
        let writer = {
            let lines = lines.clone();
            move || lines.clone()
        };
        let subscriber = fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(writer)
            .finish();
        Self {
            lines,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    /// The lines so far that contain `part`.
    pub fn with(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.lines.0.lock().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains(part));
        lines.map(str::to_owned).collect()
    }
}

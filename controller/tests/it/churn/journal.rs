//! The actions with their times: printed where a drill fails.

use parking_lot::Mutex;
use tokio::time::Instant;

/// Everything that people and killer did, in order.
pub(super) struct Journal {
    heading: String,
    seed: u64,
    started: Instant,
    lines: Mutex<Vec<String>>,
}

impl Journal {
    /// The journal of a seed. The heading says how to run the seed again.
    pub(super) fn new(seed: u64, heading: String) -> Self {
        Self {
            heading,
            seed,
            started: Instant::now(),
            lines: Mutex::default(),
        }
    }

    pub(super) fn note(&self, what: &str) {
        let time = self.started.elapsed().as_secs_f64();
        self.lines.lock().push(format!("{time:8.3}s {what}"));
    }

    /// Which drill it is.
    pub(super) fn seed(&self) -> String {
        format!("seed {}", self.seed)
    }

    /// Its last lines.
    pub(super) fn summary(&self) -> String {
        let lines = self.lines.lock();
        let end = &lines[lines.len().saturating_sub(3)..];
        format!("{}\n{}", self.heading, end.join("\n"))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines = self.lines.lock();
            eprintln!("---- {} ----\n{}", self.heading, lines.join("\n"));
        }
    }
}

//! Steps and how long each took.

use std::time::Duration;

use tokio::time::Instant;

/// A step that passed.
#[derive(Debug, Clone)]
pub struct Passed {
    /// The step, as a sentence.
    pub step: String,
    /// Its time.
    pub took: Duration,
}

/// Reports each step as it passes.
pub(super) struct Steps<F> {
    started: Instant,
    passed: F,
}

impl<F: FnMut(Passed)> Steps<F> {
    pub(super) fn new(passed: F) -> Self {
        Self {
            started: Instant::now(),
            passed,
        }
    }

    pub(super) fn done(&mut self, step: &str) {
        (self.passed)(Passed {
            step: step.to_owned(),
            took: self.started.elapsed(),
        });
        self.started = Instant::now();
    }
}

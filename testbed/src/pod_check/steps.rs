//! Steps and how long each took.

use std::{path::PathBuf, time::Duration};

use tokio::time::Instant;

/// A step that passed.
#[derive(Debug, Clone)]
pub struct Passed {
    /// The step, as a sentence.
    pub step: String,
    /// Its time.
    pub took: Duration,
    /// An administrator's kubeconfig of the cluster.
    pub kubeconfig: PathBuf,
}

/// Reports each step as it passes.
pub(super) struct Steps<F> {
    pub(super) kubeconfig: PathBuf,
    started: Instant,
    passed: F,
}

impl<F: FnMut(Passed)> Steps<F> {
    pub(super) fn new(passed: F) -> Self {
        Self {
            kubeconfig: PathBuf::new(),
            started: Instant::now(),
            passed,
        }
    }

    pub(super) fn done(&mut self, step: &str) {
        (self.passed)(Passed {
            step: step.to_owned(),
            took: self.started.elapsed(),
            kubeconfig: self.kubeconfig.clone(),
        });
        self.started = Instant::now();
    }
}

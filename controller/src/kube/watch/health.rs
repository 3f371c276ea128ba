//! Whether a store follows the API server, for `/readyz`.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Resource;
use crate::kube::error::ApiError;

/// How long a watch may fail before the store counts as out of step: an API server that restarts is
/// no reason to stop a rollout.
const GRACE: Duration = Duration::from_mins(1);

/// State of one watch. Clones share it: the watch writes it, the readiness check reads it.
#[derive(Clone, Debug)]
pub struct Health {
    resource: &'static str,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the store is to be filled at all.
    is_wanted: bool,
    is_listed: bool,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    error: String,
}

impl Health {
    /// Of a watch that has not been started.
    pub fn new(resource: Resource) -> Self {
        Self {
            resource: resource.name,
            state: Arc::default(),
        }
    }

    /// Ok as long as the watch is not wanted, or the store has been filled and the watch has not
    /// failed for a minute. A watch that is open and silent is no failure: perhaps nothing changes.
    ///
    /// # Errors
    /// A sentence with the resource, how long it has failed, and the last error.
    pub fn check(&self) -> Result<(), String> {
        let resource = self.resource;
        let state = self.state.lock();
        if !state.is_wanted {
            return Ok(());
        }
        match &state.failing {
            None if state.is_listed => Ok(()),
            None => Err(format!("{resource} have not been listed yet")),
            Some(Failing { error, .. }) if !state.is_listed => {
                Err(format!("cannot list {resource}: {error}"))
            }
            Some(Failing { since, error }) => {
                let seconds = since.elapsed().as_secs();
                if seconds < GRACE.as_secs() {
                    return Ok(());
                }
                Err(format!("cannot watch {resource} for {seconds} s: {error}"))
            }
        }
    }

    pub(super) fn wanted(&self) {
        self.state.lock().is_wanted = true;
    }

    pub(super) fn listed(&self) {
        self.state.lock().is_listed = true;
    }

    /// The watch was opened, which shows no more than that it is accepted.
    pub(super) fn opened(&self) {
        self.state.lock().failing = None;
    }

    pub(super) fn failed(&self, error: &ApiError) {
        let mut state = self.state.lock();
        let failing = state.failing.get_or_insert_with(|| Failing {
            since: Instant::now(),
            error: String::new(),
        });
        failing.error = error.to_string();
    }
}

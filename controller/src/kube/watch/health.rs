//! Whether a store follows the API server, for `/readyz`.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Resource, SILENCE};
use crate::kube::error::Error;

/// How long a watch may fail before the store counts as out of step: an API server that restarts is
/// no reason to stop a rollout.
const GRACE: Duration = Duration::from_mins(1);

/// How many watches in a row may be silent. One is a connection that broke without a word; the next
/// one gets a bookmark long before it counts as silent too.
const SILENT: u32 = 2;

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
    silent: Option<Silent>,
}

/// Watches that ended since nothing came, with nothing heard in between.
#[derive(Debug)]
struct Silent {
    /// End of the first one.
    since: Instant,
    count: u32,
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
    /// failed for a minute, nor sent nothing twice in a row.
    ///
    /// # Errors
    /// A sentence with the resource, how long it has failed, and the last error.
    pub fn check(&self) -> Result<(), String> {
        let resource = self.resource;
        let state = self.state.lock();
        if !state.is_wanted {
            return Ok(());
        }
        if let Some(Silent { since, count }) = &state.silent
            && *count >= SILENT
        {
            let seconds = (since.elapsed() + SILENCE).as_secs();
            return Err(format!(
                "the API server, or a proxy before it, accepts the watch of {resource} but has sent \
                 nothing for {seconds} s"
            ));
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
        let mut state = self.state.lock();
        state.is_listed = true;
        state.silent = None;
    }

    /// The watch was opened, which shows no more than that it is accepted.
    pub(super) fn opened(&self) {
        self.state.lock().failing = None;
    }

    /// An event or a bookmark came.
    pub(super) fn heard(&self) {
        self.state.lock().silent = None;
    }

    /// The watch ended since nothing came for [`SILENCE`].
    pub(super) fn silent(&self) {
        let mut state = self.state.lock();
        let silent = state.silent.get_or_insert_with(|| Silent {
            since: Instant::now(),
            count: 0,
        });
        silent.count += 1;
    }

    pub(super) fn failed(&self, error: &Error) {
        let mut state = self.state.lock();
        let failing = state.failing.get_or_insert_with(|| Failing {
            since: Instant::now(),
            error: String::new(),
        });
        failing.error = error.to_string();
    }
}

//! Whether a store follows the API server, for `/readyz`, and whether any does, for the leader.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::Resource;
use crate::error::ApiError;

/// How long a watch may fail before the store counts as out of step: an API server that restarts is
/// no reason to stop a rollout.
const GRACE: Duration = Duration::from_mins(1);

/// All watches of a process: one that sees nothing of the cluster must not lead. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    watches: watch::Sender<Watches>,
}

/// How many watches there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watches {
    wanted: usize,
    failing: usize,
}

impl Sight {
    /// The watches as they are, and changes of them.
    pub fn watches(&self) -> watch::Receiver<Watches> {
        self.watches.subscribe()
    }
}

impl Watches {
    /// Whether one of them works, or none is wanted yet.
    pub const fn see(self) -> bool {
        self.wanted == 0 || self.failing < self.wanted
    }
}

/// State of one watch. Clones share it: the watch writes it, the readiness check reads it.
#[derive(Clone, Debug)]
pub struct Health {
    resource: &'static str,
    state: Arc<Mutex<State>>,
    sight: Sight,
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
    pub fn new(resource: Resource, sight: &Sight) -> Self {
        Self {
            resource: resource.name,
            state: Arc::default(),
            sight: sight.clone(),
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

    /// A list or watch of this resource is wanted from now on.
    pub fn wanted(&self) {
        self.state.lock().is_wanted = true;
        self.sight
            .watches
            .send_modify(|watches| watches.wanted += 1);
    }

    pub(super) fn listed(&self) {
        self.state.lock().is_listed = true;
    }

    /// The watch was opened, which shows no more than that it is accepted.
    pub fn opened(&self) {
        if self.state.lock().failing.take().is_some() {
            self.sight
                .watches
                .send_modify(|watches| watches.failing -= 1);
        }
    }

    /// A list or watch failed.
    pub fn failed(&self, error: &ApiError) {
        let mut state = self.state.lock();
        if state.failing.is_none() {
            self.sight
                .watches
                .send_modify(|watches| watches.failing += 1);
        }
        let failing = state.failing.get_or_insert_with(|| Failing {
            since: Instant::now(),
            error: String::new(),
        });
        failing.error = error.to_string();
    }
}

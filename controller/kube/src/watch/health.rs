//! The state of the watches: does a store follow the API server, for `/readyz`, and does any, for the leader.

use std::{sync::Arc, time::Duration};

use outrigger_core::event::EventContent;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use super::revision::EtcdRevision;
use crate::{cluster::SameCluster, error::ApiError, store::Resource};

/// How long a watch may fail before the store counts as out of sync: an API server that restarts is
/// no reason to stop a rollout.
const GRACE: Duration = Duration::from_mins(1);

/// All watches of a process: one that sees nothing of the cluster must not lead. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    watches: watch::Sender<Watches>,
    /// Absent in tests of one part.
    cluster: Option<SameCluster>,
    doubted: watch::Sender<Option<Resync>>,
}

/// Nothing that was known before is believed: etcd has gone back in time, or an operator says so.
#[derive(Clone, Debug)]
pub struct Resync {
    /// Since when.
    pub since: Instant,
    /// Why, for the Lease.
    pub event: EventContent,
}

/// How many watches there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watches {
    begun: usize,
    failing: usize,
}

impl Sight {
    /// No watch yet, of this cluster alone.
    pub fn of(cluster: SameCluster) -> Self {
        Self {
            cluster: Some(cluster),
            ..Self::default()
        }
    }

    /// The cluster that the watches show.
    pub fn cluster(&self) -> Option<&SameCluster> {
        self.cluster.as_ref()
    }

    /// Has all watches list again, and the loops doubt what they know.
    pub fn doubt(&self, event: EventContent) {
        warn!(reason = event.reason, "{}", event.message);
        let since = Instant::now();
        self.doubted.send_replace(Some(Resync { since, event }));
    }

    /// The last doubt, and each new one.
    pub fn doubts(&self) -> watch::Receiver<Option<Resync>> {
        self.doubted.subscribe()
    }

    /// The watches as they are, and changes of them.
    pub fn watches(&self) -> watch::Receiver<Watches> {
        self.watches.subscribe()
    }
}

impl Watches {
    /// True if a watch works, or none has begun.
    pub const fn see(self) -> bool {
        self.begun == 0 || self.failing < self.begun
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
    /// True if the store is to be filled at all.
    has_begun: bool,
    is_listed: bool,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    error: String,
}

impl Health {
    /// The state of a watch that has not been started.
    pub fn new(resource: Resource, sight: &Sight) -> Self {
        Self {
            resource: resource.name,
            state: Arc::default(),
            sight: sight.clone(),
        }
    }

    /// Ok as long as the watch has not begun, or the store has been filled and the watch has not
    /// failed for a minute. A watch that is open and silent is no failure: perhaps nothing changes.
    ///
    /// # Errors
    /// A sentence with the resource, how long it has failed, and the last error.
    pub fn check(&self) -> Result<(), String> {
        let resource = self.resource;
        let state = self.state.lock();
        if !state.has_begun {
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

    /// Returns if the API server is that of the same cluster, as [`SameCluster::confirm`] does.
    pub(super) async fn same_cluster(&self) -> Result<(), ApiError> {
        match &self.sight.cluster {
            Some(cluster) => cluster.confirm().await,
            None => Ok(()),
        }
    }

    pub(super) fn revision(&self) -> EtcdRevision {
        EtcdRevision::new(self.resource, &self.sight)
    }

    /// The store is to be filled from now on.
    pub fn began(&self) {
        self.state.lock().has_begun = true;
        self.sight.watches.send_modify(|watches| watches.begun += 1);
    }

    /// The store is filled.
    pub(super) fn listed(&self) {
        self.state.lock().is_listed = true;
        self.opened();
    }

    /// A watch was opened, which shows no more than that it is accepted.
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

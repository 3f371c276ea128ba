//! The state of the watches: does a store follow the API server, for `/readyz`, does any, for the leader, and has etcd gone
//! back in time, as after a restore from a backup.
//!
//! A revision that is lower than one seen before is no proof in a watch: another API server may be behind. A full list, and
//! an answer about one object, are as new as etcd.

use std::{collections::BTreeMap, future::pending, time::Duration};

use outrigger_core::event::EventContent;
use tokio::{sync::watch, time::Instant};
use tracing::warn;

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

/// The watches that have begun, by resource.
#[derive(Clone, Debug, Default)]
pub struct Watches(BTreeMap<&'static str, State>);

/// State of one watch, whose store is to be filled.
#[derive(Clone, Debug, Default)]
struct State {
    is_listed: bool,
    failing: Option<Failing>,
}

#[derive(Clone, Debug)]
struct Failing {
    since: Instant,
    error: String,
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
    pub fn see(&self) -> bool {
        let mut states = self.0.values();
        self.0.is_empty() || states.any(|state| state.failing.is_none())
    }
}

/// The state of the watch of one resource: the watch writes it, the readiness check reads it.
#[derive(Clone, Debug)]
pub struct Health {
    resource: &'static str,
    sight: Sight,
}

impl Health {
    /// The state of a watch that has not been started.
    pub fn new(resource: Resource, sight: &Sight) -> Self {
        Self {
            resource: resource.name,
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
        let watches = self.sight.watches.borrow();
        let Some(state) = watches.0.get(resource) else {
            return Ok(());
        };
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

    fn change(&self, change: impl FnOnce(&mut State)) {
        let watches = &self.sight.watches;
        watches.send_modify(|watches| change(watches.0.entry(self.resource).or_default()));
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
        self.change(|_| {});
    }

    /// The store is filled.
    pub(super) fn listed(&self) {
        self.change(|state| state.is_listed = true);
        self.opened();
    }

    /// A watch was opened, which shows no more than that it is accepted.
    pub fn opened(&self) {
        self.change(|state| state.failing = None);
    }

    /// A list or watch failed.
    pub fn failed(&self, error: &ApiError) {
        self.change(|state| {
            let since = state.failing.take().map(|failing| failing.since);
            state.failing = Some(Failing {
                since: since.unwrap_or_else(Instant::now),
                error: error.to_string(),
            });
        });
    }
}

/// The newest revision of etcd that one watch, or the election, has seen.
#[derive(Debug)]
pub(crate) struct EtcdRevision {
    of: &'static str,
    newest: u64,
    sight: Sight,
    doubts: watch::Receiver<Option<Resync>>,
}

impl EtcdRevision {
    /// Nothing was seen of these objects.
    pub(crate) fn new(of: &'static str, sight: &Sight) -> Self {
        Self {
            of,
            newest: 0,
            sight: sight.clone(),
            doubts: sight.doubts(),
        }
    }

    /// Returns false if a watch shows an older `version` than one before.
    pub(super) fn shown(&mut self, version: &str) -> bool {
        // The API server's word counts where it is no number.
        let version = version.parse().unwrap_or(self.newest);
        self.newest = self.newest.max(version);
        version == self.newest
    }

    /// A full list, or an answer about one object, is of `version`. An older one than before is of an etcd that has gone back:
    /// everything is in doubt, once for all who notice it.
    pub(crate) fn answered(&mut self, version: &str) {
        let Ok(version) = version.parse() else {
            return;
        };
        if version < self.newest {
            if !self.doubts.has_changed().unwrap_or_default() {
                let message = format!(
                    "etcd has gone back in time, as after a restore from a backup: {} are of revision {version}, and were of \
                     {}. All objects are listed again, each Service is ensured once, and routes to Nodes that are not \
                     there stay for an hour",
                    self.of, self.newest
                );
                self.sight
                    .doubt(EventContent::warning("EtcdRestored", &message));
            }
            self.doubts.mark_unchanged();
        }
        self.newest = version;
    }

    /// Returns once everything is in doubt, so that all objects have to be listed again.
    pub(super) async fn doubted(&mut self) {
        if self.doubts.changed().await.is_err() {
            pending::<()>().await;
        }
        self.newest = 0;
    }
}

//! Which controllers run, and who may contend for the lock that they run under.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Fatal, identity::ClusterIdentity, lease_task::LeaseTask, loops::Loops};
use crate::options::{Config, controllers::Controller};
use outrigger_kubernetes::{
    api::Api,
    leader::{Elector, Handle, LeaderConfig, LeaderMetrics, OnEvent, ProcessIdentity},
    watch::Sight,
};
use outrigger_provider_client::Provider;
use outrigger_server::{Checks, Scope};

/// The parts that lease tasks are made from.
pub(super) struct Building {
    /// Without a budget: a renewal must not wait.
    pub(super) api: Api,
    pub(super) metrics: LeaderMetrics,
    pub(super) events: OnEvent,
    pub(super) loops: Arc<Loops>,
    pub(super) provider: Provider,
    pub(super) sight: Sight,
    pub(super) checks: Checks,
    pub(super) identity: Arc<ClusterIdentity>,
}

/// The lease task of this process and its elector. Dropping it ends them without releasing the lease.
pub(super) struct LeaseTasks {
    running: JoinSet<Result<(), Fatal>>,
    lock: Option<Handle>,
    identity: Option<Arc<ProcessIdentity>>,
    _electors: JoinSet<()>,
}

/// A process that is killed comes to none of this.
impl Drop for LeaseTasks {
    fn drop(&mut self) {
        let forgotten = self.identity.as_ref().map(|identity| identity.forget());
        if let Some(Err(error)) = forgotten {
            warn!(
                %error,
                "the file of --leader-elect-identity-file is not written: the next process of the container may not wait \
                 until the Lease has expired"
            );
        }
    }
}

impl Building {
    /// Starts the lease task; it runs until `stop`.
    pub(super) fn open(self, config: &Config, stop: &CancellationToken) -> LeaseTasks {
        let mut running = JoinSet::new();
        let mut electors = JoinSet::new();
        let controllers = enabled(config);
        let Some(election) = &config.election else {
            let (_, always) = watch::channel(true);
            let lease_task = self.lease_task(config, None, always, controllers);
            running.spawn(lease_task.run(Duration::ZERO, stop.clone()));
            return LeaseTasks {
                running,
                lock: None,
                identity: None,
                _electors: electors,
            };
        };
        let identity = Arc::new(identity(election.identity_file.as_deref()));
        let lease = LeaderConfig {
            namespace: election.namespace.clone(),
            name: election.name.clone(),
            identity: Arc::clone(&identity),
            durations: election.durations,
            sight: self.sight.clone(),
        };
        let (may_contend, candidacy) = watch::channel(false);
        let (elector, lock) = Elector::new(
            self.api.clone(),
            lease,
            self.metrics.clone(),
            candidacy.clone(),
            Arc::clone(&self.events),
        );
        let elected = lock.clone();
        self.checks
            .add("leaderElection", Scope::Everywhere, move || elected.check());
        electors.spawn(async move {
            elector.run().await;
        });
        let (provider, sight) = (self.provider.clone(), self.sight.clone());
        electors.spawn(candidate(provider, sight, may_contend));
        let lease_task = self.lease_task(config, Some(lock.clone()), candidacy, controllers);
        // A process that gave its Lease up lets the others try for this long.
        let hold_off = election.durations.lease_duration() * 2;
        running.spawn(lease_task.run(hold_off, stop.clone()));
        LeaseTasks {
            running,
            lock: Some(lock),
            identity: Some(identity),
            _electors: electors,
        }
    }

    fn lease_task(
        &self,
        config: &Config,
        lock: Option<Handle>,
        able: watch::Receiver<bool>,
        controllers: Vec<Controller>,
    ) -> LeaseTask {
        LeaseTask {
            lock,
            able,
            controllers,
            loops: Arc::clone(&self.loops),
            provider: self.provider.clone(),
            grace: config.shutdown_grace,
            identity: Arc::clone(&self.identity),
        }
    }
}

/// The identity of this process, with those before it in its container if there is a file.
fn identity(file: Option<&Path>) -> ProcessIdentity {
    let Some(path) = file else {
        return ProcessIdentity::new();
    };
    ProcessIdentity::in_file(path).unwrap_or_else(|error| {
        warn!(
            ?path, %error,
            "--leader-elect-identity-file is not used: after a crash the Lease has to expire"
        );
        ProcessIdentity::new()
    })
}

/// A replica whose provider is not ready, or none of whose watches works, does not contend.
async fn candidate(provider: Provider, sight: Sight, may_contend: watch::Sender<bool>) {
    let mut state = provider.state();
    let mut watches = sight.watches();
    loop {
        let serves = state.borrow_and_update().serves();
        let sees = watches.borrow_and_update().see();
        may_contend.send_if_modified(|may| {
            let before = std::mem::replace(may, serves && sees);
            before != *may
        });
        tokio::select! {
            Ok(()) = state.changed() => {}
            Ok(()) = watches.changed() => {}
            else => return,
        }
    }
}

/// The controllers that run; those that are switched off are logged (CLI-27).
fn enabled(config: &Config) -> Vec<Controller> {
    let mut enabled = Vec::new();
    for controller in Controller::ALL {
        if config.controllers.enabled(controller) {
            enabled.push(controller);
        } else {
            let is_default = controller.runs_only_if_named();
            let controller = controller.name();
            if is_default {
                info!(controller, "controller is disabled");
            } else {
                warn!(controller, "controller is disabled");
            }
        }
    }
    enabled
}

impl LeaseTasks {
    /// The lock; none without an election.
    pub(super) fn lock(&self) -> Option<Handle> {
        self.lock.clone()
    }

    /// Waits for a lease task to end by itself: that ends the process.
    pub(super) async fn ended(&mut self) -> Result<(), Fatal> {
        match self.running.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(Fatal::Died("the controllers' supervisor".into())),
            None => std::future::pending().await,
        }
    }

    /// Waits for all of them after their stop.
    pub(super) async fn drain(&mut self) -> Result<(), Fatal> {
        let mut result = Ok(());
        while let Some(ended) = self.running.join_next().await {
            let ended = ended.unwrap_or(Err(Fatal::Died("the controllers' supervisor".into())));
            result = result.and(ended);
        }
        result
    }
}

#[cfg(test)]
mod tests;

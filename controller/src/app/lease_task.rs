//! The election and the loops under its lock: contend, lead, stop, and perhaps lead again.
//!
//! ```text
//!           leader::Elector ─► LeaseTerm: token, deadline
//!                                  │
//!                LeaseTask::run ◄──┘ elected
//!                  ├ Fence: no write and no call of the term without it
//!                  └ Loops::start ─► control_loop::run of each loop, until the token `work`
//! ```
//!
//! | end of the term | calls and writes in flight | then |
//! |---|---|---|
//! | the lease is lost | are cancelled at once | the process ends: another replica may lead |
//! | SIGTERM, or a loop has died | may end, within the grace period | the lease is released, the process ends |
//! | the provider is away, or every watch fails, for a minute | may end, within the grace period | the lease is released; contends again later |
//!
//! Where a call that changes the cloud was cut off, the lease is not released but left to expire.

use std::{borrow::Cow, path::Path, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Fatal, controllers::Hosts, identity::ClusterIdentity, supervise::Supervisor};
use crate::{
    options::config::Election,
    server::{Checks, Scope},
};
use outrigger_kube::{
    api::Api,
    leader::{
        Elector, Handle, LeaderConfig, LeaderMetrics, Leadership, LeaseTerm, OnEvent,
        ProcessIdentity,
    },
    watch::Sight,
};
use outrigger_loops::context::Term;
use outrigger_provider::Provider;
use outrigger_runtime::{fence::Fence, telemetry::RunningControllers};

/// A leader that has not been able to do the work for so long lets another replica try.
const GRACE: Duration = Duration::from_mins(1);

/// How long calls that were cancelled, and the writes of results that came before, may take to end.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Contends for the Lease of the election. Dropping it ends that without releasing the Lease.
pub(super) struct Contender {
    pub(super) lock: Handle,
    own: Arc<ProcessIdentity>,
    /// True while this process can do the work: its provider serves, and a watch works.
    able: watch::Receiver<bool>,
    _electors: JoinSet<()>,
}

impl Contender {
    /// Starts to contend. `api` has no budget: a renewal must not wait.
    pub(super) fn start(
        election: &Election,
        api: Api,
        metrics: LeaderMetrics,
        events: OnEvent,
        provider: &Provider,
        sight: &Sight,
    ) -> Self {
        let own = Arc::new(identity(election.identity_file.as_deref()));
        let lease = LeaderConfig {
            namespace: election.namespace.clone(),
            name: election.name.clone(),
            identity: Arc::clone(&own),
            durations: election.durations,
            sight: sight.clone(),
        };
        let (may_contend, able) = watch::channel(false);
        let (elector, lock) = Elector::new(api, lease, metrics, able.clone(), events);
        let mut electors = JoinSet::new();
        electors.spawn(elector.run());
        electors.spawn(candidate(provider.clone(), sight.clone(), may_contend));
        Self {
            lock,
            own,
            able,
            _electors: electors,
        }
    }
}

/// A process that is killed comes to none of this.
impl Drop for Contender {
    fn drop(&mut self) {
        if let Err(error) = self.own.forget() {
            warn!(
                %error,
                "the file of --leader-elect-identity-file is not written: the next process of the container may not wait \
                 until the Lease has expired"
            );
        }
    }
}

/// The identity of this process, that of the one before it in its container if there is a file.
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
        let able = serves && sees;
        may_contend.send_if_modified(|may| std::mem::replace(may, able) != able);
        tokio::select! {
            Ok(()) = state.changed() => {}
            Ok(()) = watches.changed() => {}
            else => return,
        }
    }
}

/// One lock and the loops under it. Dropping it ends them without releasing the lease.
pub(super) struct LeaseTask {
    /// `None` with `--leader-elect=false`: this process leads as long as it runs.
    pub(super) contender: Option<Contender>,
    pub(super) hosts: Hosts,
    pub(super) provider: Provider,
    pub(super) identity: Arc<ClusterIdentity>,
    /// Loops that were started have a check of their own (HTTP-6).
    pub(super) checks: Checks,
    /// Counts the loops that were started (M-50).
    pub(super) running: RunningControllers,
    /// `--shutdown-grace-period`: how long calls in flight may take to end.
    pub(super) grace: Duration,
}

enum End {
    Asked,
    Lost,
    Unable,
    Died(Cow<'static, str>),
}

impl LeaseTask {
    fn lock(&self) -> Option<&Handle> {
        self.contender.as_ref().map(|contender| &contender.lock)
    }

    /// Runs until `stop`, then lets calls in flight end and releases the lease, unless the provider may
    /// still be at work: then the lease is left to expire.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<(), Fatal> {
        loop {
            let Some(leading) = self.elected(&stop).await? else {
                return Ok(());
            };
            self.provider.set_standby(false);
            // Before the first call: the last leader may have worked for another cluster.
            self.identity.judge();
            self.identity.resync();
            let work = leading.token().child_token();
            let lease_term = leading.clone();
            let fence = Fence::new(move || lease_term.is_valid_now(), leading.token());
            let term = Term {
                fence: fence.clone(),
                lease: self.lock().cloned(),
                quiet_at: leading.quiet_at(),
            };
            let mut loops = self.start_loops(&term, &work);
            let end = tokio::select! {
                // The loops end with the lease term: then that is the reason.
                biased;
                () = stop.cancelled() => End::Asked,
                () = leading.token().cancelled() => End::Lost,
                () = self.unable() => End::Unable,
                name = loops.ended() => End::Died(name),
            };
            let is_finished = match end {
                End::Lost => {
                    // With the loops, calls in flight are dropped.
                    fence.cancel();
                    false
                }
                _ => self.finish(&leading, &fence, &work, loops).await,
            };
            match end {
                End::Unable if is_finished => {
                    self.provider.set_standby(true);
                    if let Some(lock) = self.lock() {
                        lock.step_down().await;
                    }
                }
                End::Lost | End::Unable if stop.is_cancelled() => return Ok(()),
                // A lease that must not be released before it expires is left with the process.
                End::Lost | End::Unable => return Err(Fatal::LeaseLost),
                End::Asked => {
                    self.release(is_finished).await;
                    return Ok(());
                }
                End::Died(name) => {
                    self.release(is_finished).await;
                    return Err(Fatal::Died(name));
                }
            }
        }
    }

    /// Starts the loops for the lease term `term`; they end when `work` does.
    fn start_loops(&self, term: &Term, work: &CancellationToken) -> Supervisor {
        let mut loops = Supervisor::default();
        for (controller, host) in &self.hosts {
            let name = controller.name();
            info!(controller = name, "controller started");
            // It is there; if it dies, the process ends.
            self.checks.add(name, Scope::Everywhere, || Ok(()));
            let counted = self.running.started(controller.alias());
            let running = host(term, work.clone());
            loops.spawn(name, async move {
                running.await;
                drop(counted);
            });
        }
        loops
    }

    /// Ends the work of a lease term: no call begins any more, and no key is taken; calls in flight may end
    /// within the grace period and their results are written, then they are cancelled. All is dropped
    /// at once when the lease is lost. Returns whether every call that changes the cloud was answered, and what came of it
    /// is written, while the lease lasted.
    async fn finish(
        &self,
        leading: &LeaseTerm,
        fence: &Fence,
        work: &CancellationToken,
        mut loops: Supervisor,
    ) -> bool {
        fence.stop();
        work.cancel();
        let drained = async {
            let mut ended = std::pin::pin!(async {
                loops.drain().await;
                fence.idle().await;
            });
            if timeout(self.grace, &mut ended).await.is_ok() {
                return true;
            }
            warn!(
                grace = ?self.grace,
                "calls still in flight at the end of the grace period; cancelling them"
            );
            fence.cancel();
            timeout(CANCEL_TIMEOUT, ended).await.is_ok()
        };
        let drained = tokio::select! {
            biased;
            () = leading.token().cancelled() => {
                warn!("lease lost with work still in flight; dropping it");
                false
            }
            drained = drained => drained,
        };
        // Ends the calls whose loop is gone already.
        fence.cancel();
        // How long another replica waits for a lease that is not released.
        let expiry = self.lock().map(Handle::lease_duration);
        drained && fence.is_answered(expiry.unwrap_or_default())
    }

    /// Releases the lease if the work `is_finished`: another leader might begin too early otherwise.
    async fn release(&self, is_finished: bool) {
        match self.lock() {
            Some(lock) if is_finished => lock.release().await,
            Some(lock) => warn!(
                lease = lock.lease(),
                "the provider may still be at work on a call that was cut off; leaving the lease to expire"
            ),
            None => {}
        }
    }

    /// Waits to lead; none if `stop` came first.
    async fn elected(&self, stop: &CancellationToken) -> Result<Option<LeaseTerm>, Fatal> {
        let Some(lock) = self.lock() else {
            return Ok(Some(LeaseTerm::unelected(CancellationToken::new())));
        };
        let mut leadership = lock.leadership();
        let decided = leadership.wait_for(|now| !matches!(now, Leadership::Standby { .. }));
        tokio::select! {
            () = stop.cancelled() => {}
            now = decided => return match now.as_deref() {
                Ok(Leadership::Leading(leading)) => Ok(Some(leading.clone())),
                _ => Err(Fatal::LeaseLost),
            },
        }
        lock.release().await;
        Ok(None)
    }

    /// Returns when this process has not been able to do the work for a whole grace period. Never, if there is no
    /// lease that could be given up.
    async fn unable(&self) {
        let able = self.contender.as_ref().map(|of| of.able.clone());
        let Some(mut able) = able else {
            return std::future::pending().await;
        };
        while able.wait_for(|able| !able).await.is_ok() {
            if timeout(GRACE, able.wait_for(|able| *able)).await.is_err() {
                let (seconds, serves) = (GRACE.as_secs(), self.provider.state().borrow().serves());
                warn!(
                    seconds,
                    serves,
                    "the provider has been away, or no watch of the API server has worked; \
                     releasing the lease to another replica"
                );
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;

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
use tracing::warn;

use super::{Fatal, identity::ClusterIdentity, loops::Loops, supervise::Supervisor};
use crate::options::Config;
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
use outrigger_runtime::fence::Fence;

/// A leader that has not been able to do the work for so long lets another replica try.
const GRACE: Duration = Duration::from_mins(1);

/// How long calls that were cancelled, and the writes of results that came before, may take to end.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// The parts that the lease task is made from.
pub(super) struct Building {
    /// Without a budget: a renewal must not wait.
    pub(super) api: Api,
    pub(super) metrics: LeaderMetrics,
    pub(super) events: OnEvent,
    pub(super) loops: Loops,
    pub(super) provider: Provider,
    pub(super) sight: Sight,
    pub(super) identity: Arc<ClusterIdentity>,
}

/// A process that is killed comes to none of this.
impl Drop for LeaseTask {
    fn drop(&mut self) {
        let forgotten = self.own.as_ref().map(|identity| identity.forget());
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
    /// Starts to contend.
    pub(super) fn open(self, config: &Config) -> LeaseTask {
        let mut electors = JoinSet::new();
        let (may_contend, able) = watch::channel(config.election.is_none());
        let elected = config.election.as_ref().map(|election| {
            let identity = Arc::new(identity(election.identity_file.as_deref()));
            let lease = LeaderConfig {
                namespace: election.namespace.clone(),
                name: election.name.clone(),
                identity: Arc::clone(&identity),
                durations: election.durations,
                sight: self.sight.clone(),
            };
            let (elector, lock) =
                Elector::new(self.api, lease, self.metrics, able.clone(), self.events);
            electors.spawn(elector.run());
            electors.spawn(candidate(self.provider.clone(), self.sight, may_contend));
            (lock, identity)
        });
        let (lock, own) = elected.unzip();
        LeaseTask {
            lock,
            own,
            able,
            loops: self.loops,
            provider: self.provider,
            grace: config.shutdown_grace,
            identity: self.identity,
            _electors: electors,
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
    lock: Option<Handle>,
    /// In the election.
    own: Option<Arc<ProcessIdentity>>,
    /// True while this process can do the work: its provider serves, and a watch works.
    able: watch::Receiver<bool>,
    loops: Loops,
    provider: Provider,
    /// `--shutdown-grace-period`: how long calls in flight may take to end.
    grace: Duration,
    identity: Arc<ClusterIdentity>,
    _electors: JoinSet<()>,
}

enum End {
    Asked,
    Lost,
    Unable,
    Died(Cow<'static, str>),
}

impl LeaseTask {
    /// The lock; none without an election.
    pub(super) fn lock(&self) -> Option<Handle> {
        self.lock.clone()
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
            self.identity.judge(self.lock.as_ref());
            if let Some(lock) = &self.lock {
                self.identity.resync(lock);
            }
            let work = leading.token().child_token();
            let lease_term = leading.clone();
            let fence = Fence::new(move || lease_term.is_valid_now(), leading.token());
            let mut loops = Supervisor::default();
            let term = Term {
                fence: fence.clone(),
                lease: self.lock.clone(),
                quiet_at: leading.quiet_at(),
            };
            self.loops.start(&term, &work, &mut loops);
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
                    if let Some(lock) = &self.lock {
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
        let expiry = self.lock.as_ref().map(Handle::lease_duration);
        drained && fence.is_answered(expiry.unwrap_or_default())
    }

    /// Releases the lease if the work `is_finished`: another leader might begin too early otherwise.
    async fn release(&self, is_finished: bool) {
        match &self.lock {
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
        let Some(lock) = &self.lock else {
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
        let mut able = self.able.clone();
        // Without a lease nothing ever changes it.
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

//! One lock and the loops under it: contend, lead, stop, and perhaps lead again. Made by [`super::lease_tasks`].
//!
//! ```text
//!           leader::election ─► Leading: token, deadline
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

use std::{borrow::Cow, sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Fatal, identity::ClusterIdentity, loops::Loops, supervise::Supervisor};
use crate::options::controllers::Controller;
use outrigger_kubernetes::leader::{Handle, Leadership, Leading};
use outrigger_loops::context::Term;
use outrigger_provider_client::Provider;
use outrigger_runtime::fence::Fence;

/// A leader that has not been able to do the work for so long lets another replica try.
const GRACE: Duration = Duration::from_mins(1);

/// How long calls that were cancelled, and the writes of results that came before, may take to end.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// One lock and the loops under it.
pub(super) struct LeaseTask {
    /// `None` with `--leader-elect=false`: this process leads as long as it runs.
    pub(super) lock: Option<Handle>,
    /// True while this process can do the work: its provider serves, and a watch works.
    pub(super) able: watch::Receiver<bool>,
    pub(super) controllers: Vec<Controller>,
    pub(super) loops: Arc<Loops>,
    pub(super) provider: Provider,
    /// `--shutdown-grace-period`: how long calls in flight may take to end.
    pub(super) grace: Duration,
    pub(super) identity: Arc<ClusterIdentity>,
}

enum End {
    Asked,
    Lost,
    Unable,
    Died(Cow<'static, str>),
}

/// How the work of a lease term ended.
enum Work {
    /// Every call that changes the cloud was answered, and what came of it is written.
    Finished,
    /// The provider, or the API server, may still be at work.
    CutOff,
    /// The lease was lost meanwhile.
    Lost,
}

impl LeaseTask {
    /// Runs until `stop`, then lets calls in flight end and releases the lease, unless the provider may
    /// still be at work: then the lease is left to expire. A process that gave it up before does not
    /// contend for it again for `hold_off`.
    pub(super) async fn run(
        self,
        hold_off: Duration,
        stop: CancellationToken,
    ) -> Result<(), Fatal> {
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
            let leadership = leading.clone();
            let fence = Fence::new(move || leadership.is_valid_now(), leading.token());
            let mut loops = Supervisor::default();
            let term = Term {
                fence: fence.clone(),
                lease: self.lock.clone(),
                quiet_at: leading.quiet_at(),
            };
            self.loops
                .start(&self.controllers, &term, &work, &mut loops);
            let end = tokio::select! {
                // The loops end with the lease term: then that is the reason.
                biased;
                () = stop.cancelled() => End::Asked,
                () = leading.token().cancelled() => End::Lost,
                () = self.unable() => End::Unable,
                name = loops.ended() => End::Died(name),
            };
            if matches!(end, End::Unable) {
                let seconds = GRACE.as_secs();
                if self.provider.state().borrow().serves() {
                    warn!(
                        seconds,
                        "no watch of the API server has worked; releasing the lease to another replica"
                    );
                } else {
                    warn!(
                        seconds,
                        "the provider has been away; releasing the lease to another replica"
                    );
                }
            }
            let ended = match end {
                End::Lost => {
                    // With the loops, calls in flight are dropped.
                    fence.cancel();
                    Work::Lost
                }
                _ => self.finish(&leading, &fence, &work, loops).await,
            };
            match (end, ended) {
                (End::Died(name), ended) => {
                    self.release_after(&ended).await;
                    return Err(Fatal::Died(name));
                }
                (End::Asked, ended) => {
                    self.release_after(&ended).await;
                    return Ok(());
                }
                (End::Lost | End::Unable, Work::Lost) if stop.is_cancelled() => return Ok(()),
                (End::Unable, Work::Finished) => {
                    self.provider.set_standby(true);
                    if let Some(lock) = &self.lock {
                        lock.step_down(hold_off).await;
                    }
                }
                // A lease that must not be released before it expires is left with the process.
                (End::Lost | End::Unable, _) => return Err(Fatal::LeaseLost),
            }
        }
    }

    /// Ends the work of a lease term: no call begins any more, and no key is taken; calls in flight may end
    /// within the grace period and their results are written, then they are cancelled. All is dropped
    /// at once when the lease is lost.
    async fn finish(
        &self,
        leading: &Leading,
        fence: &Fence,
        work: &CancellationToken,
        mut loops: Supervisor,
    ) -> Work {
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
            () = leading.token().cancelled() => None,
            drained = drained => Some(drained),
        };
        // Ends the calls whose loop is gone already.
        fence.cancel();
        match drained {
            None => {
                warn!("lease lost with work still in flight; dropping it");
                Work::Lost
            }
            Some(true) if fence.is_answered(self.expiry()) => Work::Finished,
            Some(_) => Work::CutOff,
        }
    }

    /// How long another replica waits for a lease that is not released.
    fn expiry(&self) -> Duration {
        self.lock
            .as_ref()
            .map(Handle::lease_duration)
            .unwrap_or_default()
    }

    /// Releases the lease, unless another leader might begin too early.
    async fn release_after(&self, ended: &Work) {
        let Some(lock) = &self.lock else { return };
        match ended {
            Work::Finished => lock.release().await,
            Work::CutOff => warn!(
                lease = lock.lease(),
                "the provider may still be at work on a call that was cut off; leaving the lease to expire"
            ),
            Work::Lost => {}
        }
    }

    /// Waits to lead; none if `stop` came first.
    async fn elected(&self, stop: &CancellationToken) -> Result<Option<Leading>, Fatal> {
        let Some(lock) = &self.lock else {
            return Ok(Some(Leading::unelected(CancellationToken::new())));
        };
        let mut leadership = lock.leadership();
        loop {
            match &*leadership.borrow_and_update() {
                Leadership::Leading(leading) => {
                    return Ok(Some(leading.clone()));
                }
                Leadership::Lost { .. } => {
                    return Err(Fatal::LeaseLost);
                }
                Leadership::Standby { .. } => {}
            }
            tokio::select! {
                () = stop.cancelled() => {
                    lock.release().await;
                    return Ok(None);
                }
                changed = leadership.changed() => if changed.is_err() {
                    return Err(Fatal::LeaseLost);
                },
            }
        }
    }

    /// Returns when this process has not been able to do the work for a whole grace period. Never, if there is no
    /// lease that could be given up.
    async fn unable(&self) {
        let mut able = self.able.clone();
        // Without a lease nothing ever changes it.
        while able.wait_for(|able| !able).await.is_ok() {
            match timeout(GRACE, able.wait_for(|able| *able)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => break,
                Err(_) => return,
            }
        }
        std::future::pending::<()>().await;
    }
}

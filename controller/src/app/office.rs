//! One lock and what runs under it: contend, lead, stop, and perhaps lead again.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Fatal, loops::Loops, supervise::Supervisor};
use crate::{
    leader::{Handle, Leadership, Leading},
    options::controllers::Controller,
    provider::{Provider, State},
};

/// A leader whose provider has been away for so long lets another replica try.
const PROVIDER_GRACE: Duration = Duration::from_mins(1);

/// How long the loops may take to finish what they have in hand, when the lease is given up.
const HAND_OVER: Duration = Duration::from_secs(10);

/// One lock and what runs under it.
pub(super) struct Office {
    /// `None` with `--leader-elect=false`: this process leads as long as it runs.
    pub(super) lock: Option<Handle>,
    pub(super) controllers: Vec<Controller>,
    pub(super) loops: Arc<Loops>,
    pub(super) provider: Provider,
    /// Whether this lock decides if the provider is asked as by a leader or by a standby.
    pub(super) main: bool,
}

enum End {
    Asked,
    Lost,
    ProviderGone,
}

impl Office {
    /// Runs until `stop`, then lets the loops finish and gives the lease back. A process that gave
    /// it up before does not contend for it again for `hold_off`.
    pub(super) async fn run(
        self,
        hold_off: Duration,
        stop: CancellationToken,
    ) -> Result<(), Fatal> {
        loop {
            let Some(leading) = self.elected(&stop).await? else {
                return Ok(());
            };
            if self.main {
                self.provider.set_standby(false);
            }
            let work = leading.token().child_token();
            let mut loops = Supervisor::default();
            let lock = self.lock.as_ref();
            self.loops
                .start(&self.controllers, &leading, lock, &work, &mut loops);
            let end = tokio::select! {
                // The loops end with the time in office: then that is the reason.
                biased;
                () = stop.cancelled() => End::Asked,
                () = leading.token().cancelled() => End::Lost,
                () = self.provider_gone() => End::ProviderGone,
                name = loops.ended() => return Err(Fatal::Died(name)),
            };
            match end {
                End::Asked => {
                    work.cancel();
                    loops.drain().await;
                    if let Some(lock) = &self.lock {
                        lock.release().await;
                    }
                    return Ok(());
                }
                // Whatever is in flight is dropped with the loops.
                End::Lost if stop.is_cancelled() => return Ok(()),
                End::Lost => return Err(Fatal::LeaseLost(self.name())),
                End::ProviderGone => {
                    warn!(
                        "the provider has been away for {} s; giving the lease to another replica",
                        PROVIDER_GRACE.as_secs()
                    );
                    work.cancel();
                    if tokio::time::timeout(HAND_OVER, loops.drain())
                        .await
                        .is_err()
                    {
                        warn!("the loops are still busy; their calls are dropped");
                        drop(loops);
                    }
                    if self.main {
                        self.provider.set_standby(true);
                    }
                    if let Some(lock) = &self.lock {
                        lock.give_up(hold_off).await;
                    }
                }
            }
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
                Leadership::Lost { reason } => {
                    warn!(lease = lock.lease(), "{reason}");
                    return Err(Fatal::LeaseLost(self.name()));
                }
                Leadership::Standby { .. } => {}
            }
            tokio::select! {
                () = stop.cancelled() => {
                    lock.release().await;
                    return Ok(None);
                }
                changed = leadership.changed() => if changed.is_err() {
                    return Err(Fatal::LeaseLost(self.name()));
                },
            }
        }
    }

    /// PROC-13's words.
    const fn name(&self) -> &'static str {
        if self.main {
            "leaderelection lost"
        } else {
            "migration leaderelection lost"
        }
    }

    /// Returns when the provider has not served for a whole grace period. Never, if there is no
    /// lease that could be given up.
    async fn provider_gone(&self) {
        if self.lock.is_none() {
            return std::future::pending().await;
        }
        let mut state = self.provider.state();
        loop {
            // The sender lives in the provider's handle, which we hold.
            let _ = state.wait_for(|state| !state.serves()).await;
            let back = state.wait_for(State::serves);
            if tokio::time::timeout(PROVIDER_GRACE, back).await.is_err() {
                return;
            }
        }
    }
}

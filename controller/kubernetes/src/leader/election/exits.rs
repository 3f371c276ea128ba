//! The ends of a lease term: losing the lease, releasing it.

use std::time::Duration;

use outrigger_core::{
    event::{EventContent, ObjectRef},
    lease::Lost,
};
use outrigger_runtime::clock::time_of_day;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};
use tracing::{error, info, warn};

use super::{
    super::{EVENT_REASON, LeaderConfig, Leadership, requests::Purpose},
    Elector, Ended,
};

impl Elector {
    /// From now on nothing is sent.
    pub(super) fn lost(mut self, reason: Lost) -> Ended {
        self.request = None;
        self.end_term();
        error!(lease = self.config.name, error = %reason, "leaderelection lost");
        self.leadership.send_replace(Leadership::Lost {
            reason: reason.clone(),
        });
        self.record_event("stopped leading");
        Ended::Lost(reason)
    }

    pub(super) async fn step_down(&mut self, hold_off: Duration, done: oneshot::Sender<()>) {
        if self.lease_term.is_some() {
            self.release().await;
            // A standby sees the release immediately, or polls.
            let chance = self.config.durations.retry_period() * 3;
            let now = Instant::now().into_std();
            self.candidacy.give_up(now, chance, hold_off);
            info!(lease = self.config.name, ?hold_off, "lease given up");
            self.standby();
        }
        let _ = done.send(());
    }

    /// Gives back what is or may be ours.
    pub(super) async fn release(&mut self) {
        let leading = self.leading();
        if let Some(leading) = &leading {
            leading.end();
        }
        let limit = self.config.durations.renew_deadline();
        if timeout(limit, self.release_lease()).await.is_err() {
            warn!(
                lease = self.config.name,
                "lease could not be released in time; it will expire"
            );
        }
        self.request = None;
        if leading.is_some() {
            self.end_term();
            self.record_event("stopped leading");
        }
        self.standby();
    }

    /// Writes the empty holder; once more if another client wrote in between.
    async fn release_lease(&mut self) {
        // A claim or renewal under way might be carried out after ours.
        if let Some(request) = self.request.take() {
            let _ = self.learn(request.await);
        }
        for _ in 0..2 {
            if self.observed.must_read() {
                let _ = self.learn(self.requests.read(Purpose::Read).await);
            }
            if self.observed.holder() != Some(&self.config.identity.own) {
                return;
            }
            let Some(object) = &self.object else { return };
            let record = object.record().released(time_of_day());
            let answer = self.replace(Purpose::Release, &record).await;
            match self.learn(answer) {
                Ok(_) => {
                    info!(lease = self.config.name, "lease released");
                    return;
                }
                Err(error) => warn!(lease = self.config.name, %error, "lease cannot be released"),
            }
        }
    }

    /// Ends the lease term for every holder of its token.
    fn end_term(&mut self) {
        if let Some(leading) = self.leading() {
            leading.end();
        }
        self.lease_term = None;
        *self.shared.renewed.lock() = None;
        self.shared.annotations.clear();
        self.metrics.leading(&self.config.name, false);
    }

    /// An event about the Lease.
    pub(super) fn record_event(&self, change: &str) {
        let message = format!("{} {change}", self.config.identity.own);
        self.send_event(EventContent::normal(EVENT_REASON, &message));
    }

    pub(super) fn send_event(&self, event: EventContent) {
        let object = self.object.as_ref();
        let uid = object.map_or("", |object| &object.metadata.uid);
        let LeaderConfig {
            namespace, name, ..
        } = &self.config;
        (self.on_event)(ObjectRef::lease(namespace, name, uid), event);
    }
}

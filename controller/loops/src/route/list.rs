//! The list of all routes: at the start, after an unknown result, and once in each period.

use std::{collections::BTreeSet, time::Duration};

use outrigger_core::{cidr::Cidr, error_class::ErrorClass};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};
use tracing::debug;

use super::{NodeRoute, metrics::SyncOutcome};
use outrigger_provider_client::Error;
use outrigger_runtime::{log_repeated, queue::Outcome};

/// Pause before a list is tried again, doubled by each failure up to [`LONGEST_RETRY`], and to the period.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// Pause between two lists that are not due by the period.
const GAP: Duration = Duration::from_secs(1);

/// When routes are listed. One list serves all keys that wait for it.
#[derive(Debug)]
pub(super) struct ListSchedule {
    wanted: Notify,
    /// How many lists were complete.
    complete: watch::Sender<u64>,
    began: Mutex<Instant>,
    /// Destinations that wait for their back-off.
    backing_off: Mutex<BTreeSet<Cidr>>,
}

impl Default for ListSchedule {
    fn default() -> Self {
        Self {
            wanted: Notify::new(),
            complete: watch::Sender::new(0),
            began: Mutex::new(Instant::now()),
            backing_off: Mutex::default(),
        }
    }
}

impl ListSchedule {
    /// Notes how a destination was reconciled.
    pub(super) fn note(&self, destination: Cidr, outcome: Outcome) {
        let mut backing_off = self.backing_off.lock();
        if outcome == Outcome::Retry {
            backing_off.insert(destination);
        } else {
            backing_off.remove(&destination);
        }
    }
}

impl NodeRoute {
    /// Waits for a list that settles what is not known about `destination`. Returns false at the stop.
    pub(super) async fn listed(&self, destination: Cidr) -> bool {
        let mut complete = self.schedule.complete.subscribe();
        loop {
            complete.mark_unchanged();
            if !self.state.known().table.needs_list(destination) {
                return true;
            }
            self.schedule.wanted.notify_one();
            tokio::select! {
                // The sender lives as long as self.
                _ = complete.changed() => {}
                () = self.stopping.cancelled() => return false,
            }
        }
    }

    /// Lists whenever that is due. Never returns.
    pub(super) async fn keep_listing(&self) {
        let period = self.settings.period;
        loop {
            let due = *self.schedule.began.lock() + period;
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.schedule.wanted.notified() => {
                    // The last list may have settled it.
                    if !self.state.known().table.is_outdated() {
                        continue;
                    }
                }
            }
            self.list().await;
            sleep(GAP.min(period)).await;
        }
    }

    /// Lists anew whenever the cluster's UID changes: without it, or with another one, the provider may list
    /// other routes, and has refused all changes. Never returns.
    pub(super) async fn follow_cluster_uid(&self) {
        let mut uid = self.cluster_uid.clone();
        while uid.changed().await.is_ok() {
            self.state.known().table.outdate();
            self.schedule.wanted.notify_one();
            self.queue_destinations(self.state.destinations());
        }
        // The sender lives as long as the provider's handle.
        std::future::pending::<()>().await;
    }

    /// Lists until a list is complete. Once one is after others failed, the cloud is there again: changes that failed
    /// meanwhile need not wait for their back-off.
    pub(super) async fn list(&self) {
        let longest = LONGEST_RETRY.min(self.settings.period);
        let mut retry = RETRY;
        let mut has_failed = false;
        loop {
            self.context.provider.serving().await;
            let Err(error) = self.list_once().await else {
                if has_failed {
                    let failed = self.schedule.backing_off.lock().clone();
                    self.queue_destinations(failed);
                }
                return;
            };
            has_failed = true;
            let class = error.class();
            self.metrics.failed("list", class);
            self.metrics.periodic(SyncOutcome::Error);
            log_repeated!(
                warn, self.context.repeats, &error.to_string(),
                class = class.as_str(), %error, "routes cannot be listed; none is deleted before that"
            );
            if class == ErrorClass::Unavailable {
                retry = RETRY;
            }
            sleep(retry).await;
            retry = longest.min(retry * 2);
        }
    }

    async fn list_once(&self) -> Result<(), Error> {
        *self.schedule.began.lock() = Instant::now();
        let start = self.state.known().table.list_begins();
        let routes = self.context.provider.routes().list().await?;
        let listed = routes.len();
        let mut due = {
            let mut known = self.state.known();
            let mut due = known.table.list_completed(start, routes);
            known.nodes.add_overlapping(&mut due);
            due
        };
        let outcome = match due.len() {
            0 => SyncOutcome::Noop,
            _ => SyncOutcome::Changed,
        };
        self.metrics.periodic(outcome);
        self.metrics.listed();
        debug!(routes = listed, changed = due.len(), "routes listed");
        due.extend(self.state.forget_unwatched());
        self.queue_destinations(due);
        self.queue_all_nodes();
        self.schedule.complete.send_modify(|lists| *lists += 1);
        Ok(())
    }
}

//! The list of all routes: at the start, after an unknown result, and once in each period.
//!
//! Tasks of the loop list; the keys that need a list wait for it here, and one list serves all of them. A list that fails
//! is tried again with a back-off, and the Nodes without routes say why.

use std::time::Duration;

use outrigger_core::{cidr::Cidr, cluster_uid::ClusterUid, error_class::ErrorClass};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{NodeRoute, metrics::SyncOutcome};
use outrigger_provider::{Error, Provider};
use outrigger_runtime::log_repeated;

/// Pause before a list is tried again, doubled by each failure up to [`LONGEST_RETRY`], and to the period.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// Pause between two lists that are not due by the period.
const GAP: Duration = Duration::from_secs(1);

/// The lists of routes. One serves all keys that wait for it.
pub(super) struct RouteLists {
    /// The cluster's UID; the receiver was made before the first list.
    cluster_uid: watch::Receiver<ClusterUid>,
    is_due: Notify,
    /// How many lists were complete.
    complete: watch::Sender<u64>,
    began: Mutex<Instant>,
    stopping: CancellationToken,
}

impl RouteLists {
    /// No list yet.
    pub(super) fn new(provider: &Provider) -> Self {
        Self {
            cluster_uid: provider.cluster_uid(),
            is_due: Notify::new(),
            complete: watch::Sender::new(0),
            began: Mutex::new(Instant::now()),
            stopping: CancellationToken::new(),
        }
    }

    /// No key waits for a list any more.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
    }
}

impl NodeRoute {
    /// Waits for a list that settles what is not known about `destination`. Returns false at the stop.
    pub(super) async fn wait_for_list(&self, destination: Cidr) -> bool {
        let mut complete = self.lists.complete.subscribe();
        loop {
            complete.mark_unchanged();
            if !self.state.findings().table.needs_list(destination) {
                return true;
            }
            self.lists.is_due.notify_one();
            tokio::select! {
                // The sender lives as long as self.
                _ = complete.changed() => {}
                () = self.lists.stopping.cancelled() => return false,
            }
        }
    }

    /// Lists whenever that is due, now if no list was complete. Never returns.
    pub(super) async fn keep_listing(&self) {
        let period = self.state.settings.period;
        if self.state.findings().table.is_outdated() {
            self.list().await;
        }
        loop {
            let due = *self.lists.began.lock() + period;
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.lists.is_due.notified() => {
                    // The last list may have settled it.
                    if !self.state.findings().table.is_outdated() {
                        continue;
                    }
                }
            }
            self.list().await;
            sleep(GAP.min(period)).await;
        }
    }

    /// Lists again whenever the cluster's UID changes: without it, or with another one, the provider may list
    /// other routes, and has refused all changes. Never returns.
    pub(super) async fn follow_cluster_uid(&self) {
        let mut uid = self.lists.cluster_uid.clone();
        while uid.changed().await.is_ok() {
            self.state.findings().table.outdate();
            self.lists.is_due.notify_one();
            self.state.queue_destinations(self.state.destinations());
        }
        // The sender lives as long as the provider's handle.
        std::future::pending::<()>().await;
    }

    /// Lists until a list is complete. Once one is after others failed, the cloud is there again: changes that failed
    /// meanwhile need not wait for their back-off.
    async fn list(&self) {
        let longest = LONGEST_RETRY.min(self.state.settings.period);
        let mut retry = RETRY;
        let mut has_failed = false;
        loop {
            self.context.provider.wait_until_serving().await;
            let Err(class) = self.try_list().await else {
                if has_failed {
                    self.state.queue_destinations(self.state.destinations());
                }
                return;
            };
            has_failed = true;
            if class == ErrorClass::Unavailable {
                retry = RETRY;
            }
            sleep(retry).await;
            retry = longest.min(retry * 2);
        }
    }

    /// Lists once. Nodes that have no route before a list is complete say why one has failed.
    pub(super) async fn try_list(&self) -> Result<(), ErrorClass> {
        let Err(error) = self.list_once().await else {
            return Ok(());
        };
        let class = error.class();
        self.metrics.failed("list", class);
        self.metrics.synced(SyncOutcome::Error, "periodic");
        log_repeated!(
            warn, self.context.repeats, &error.to_string(),
            class = class.as_str(), %error, "routes cannot be listed; none is made or deleted before that"
        );
        self.state.findings().list_failure = Some(error.steady());
        self.state.queue_all_nodes();
        Err(class)
    }

    async fn list_once(&self) -> Result<(), Error> {
        *self.lists.began.lock() = Instant::now();
        let start = self.state.findings().table.list_begins();
        let routes = self.context.provider.routes().list().await?;
        let listed = routes.len();
        let due = {
            let mut findings = self.state.findings();
            findings.list_failure = None;
            let mut due = findings.table.list_completed(start, routes);
            findings.nodes.add_overlapping(&mut due);
            due
        };
        let outcome = match due.len() {
            0 => SyncOutcome::Noop,
            _ => SyncOutcome::Changed,
        };
        self.metrics.synced(outcome, "periodic");
        self.metrics.listed();
        debug!(routes = listed, changed = due.len(), "routes listed");
        self.state.queue_destinations(due);
        self.state.queue_all_nodes();
        self.lists.complete.send_modify(|lists| *lists += 1);
        Ok(())
    }
}

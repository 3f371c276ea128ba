//! No Service waits in silence, and no Node is deleted whose machine runs.
//!
//! A Service and its load balancer may differ, but then the provider is called about it, or a
//! condition says why not. Time counts only while the controller has everything that it needs, could call
//! about one more Service, and has not called about this one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Service;
use outrigger_core::service::{
    ANNOTATION_PAUSED, FINALIZER,
    condition::{ACCEPTED, PROVISIONED, TARGETS_IN_SYNC},
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    agreement::{Judged, View, conditions},
    invariants::{Calls, Invariants},
    journal::Journal,
    ledger::Ledger,
};

/// A change of a Service is tried at once, and a change of nodes within seconds; the rest is for a
/// controller that has to start, or to become leader, on a machine that is busy.
const SILENT: Duration = Duration::from_secs(20);

/// A new Service waits up to 30 s for the end of the former one of its name.
const FIRST: Duration = Duration::from_secs(50);

/// A deletion is tried again after 30 s at most.
const DELETION: Duration = Duration::from_secs(45);

/// Targets that cannot be set are tried again after 5, 10, 20 … s, and the first 30 s no condition says so.
const TARGETS: Duration = Duration::from_secs(45);

/// Everything else after 5 min at most.
const LOUD: Duration = Duration::from_secs(330);

/// How often the journal is read.
const EVERY: Duration = Duration::from_millis(100);

/// How often Services and Nodes are listed, in readings of the journal.
const LISTED: u32 = 10;

/// Between two lists at most so much time counts as silent: those of a slow API server are seconds apart, and the
/// first may be older than the edit that the second shows.
const COUNTED: Duration = Duration::from_secs(2);

/// A Service that differs while nothing happens about it.
#[derive(PartialEq)]
struct Waiting {
    calls: Calls,
    conditions: String,
    is_deleted: bool,
}

/// For how long.
struct Since {
    waiting: Waiting,
    /// Without the time in which the Service was paused, a call about it was in flight, or the controller
    /// worked on as many as it may.
    silent: Duration,
}

/// Checks all the time.
pub(super) struct Watch {
    view: View,
    ledger: Ledger,
    journal: Arc<Journal>,
    invariants: Invariants,
    /// How many Services the controller works on at once.
    workers: usize,
    waiting: HashMap<String, Since>,
    checked: Instant,
    /// Names of the Nodes that were there, by UID.
    nodes: HashMap<String, String>,
}

impl Watch {
    pub(super) fn new(
        view: &View,
        ledger: &Ledger,
        journal: &Arc<Journal>,
        invariants: Invariants,
        workers: usize,
    ) -> Self {
        Self {
            view: view.clone(),
            ledger: ledger.clone(),
            journal: Arc::clone(journal),
            invariants,
            workers,
            waiting: HashMap::new(),
            checked: Instant::now(),
            nodes: HashMap::new(),
        }
    }

    /// How often the provider changed routes.
    pub(super) fn summary(&self) -> String {
        self.invariants.routes.summary()
    }

    /// Fails the test as soon as an invariant does not hold.
    pub(super) async fn run(&mut self, over: &CancellationToken) {
        let mut readings = 0_u32;
        while !over.is_cancelled() {
            let mut held = self.invariants.check();
            readings += 1;
            if held.is_ok() && readings.is_multiple_of(LISTED) {
                held = self.nodes_stay().await.and(self.check_silence().await);
            }
            if let Err(what) = held {
                self.journal.note(&format!("INVARIANT: {what}"));
                panic!("{}: {what}", self.journal.seed());
            }
            sleep(EVERY).await;
        }
    }

    async fn nodes_stay(&mut self) -> Result<(), String> {
        // Without an API server nothing is deleted either.
        let Ok(nodes) = self.view.nodes().await else {
            return Ok(());
        };
        let meta = nodes.into_iter().map(|node| node.metadata);
        let now: HashMap<_, _> = meta
            .map(|meta| (meta.uid.unwrap_or_default(), meta.name.unwrap_or_default()))
            .collect();
        for (uid, name) in std::mem::take(&mut self.nodes) {
            if !now.contains_key(&uid) && !self.ledger.is_deleted_node(&uid) {
                return Err(format!(
                    "the Node {name} ({uid}) was deleted, and its machine runs"
                ));
            }
        }
        self.nodes = now;
        Ok(())
    }

    async fn check_silence(&mut self) -> Result<(), String> {
        if self.ledger.undisturbed().is_none() {
            self.waiting.clear();
            return Ok(());
        }
        let Ok((judged, _)) = self.view.judge().await else {
            return Ok(());
        };
        let Some(undisturbed) = self.ledger.undisturbed() else {
            return Ok(());
        };
        let step = self.checked.elapsed().min(COUNTED);
        self.checked = Instant::now();
        let is_full = self.invariants.worked_on() >= self.workers;
        let mut before = std::mem::take(&mut self.waiting);
        for Judged { service, wrong } in judged {
            if wrong.is_empty() || is_held(&service) {
                continue;
            }
            let uid = service.metadata.uid.clone().unwrap_or_default();
            let mut calls = self.invariants.calls_about(&uid);
            let is_of_targets = wrong.iter().all(|what| what.starts_with("targets"));
            // An update of nodes is no answer to an edit.
            if !is_of_targets {
                calls.nodes = 0;
            }
            let waiting = Waiting {
                calls,
                conditions: format!("{:?}", conditions(&service)),
                is_deleted: service.metadata.deletion_timestamp.is_some(),
            };
            let record = before
                .remove(&uid)
                .filter(|record| record.waiting == waiting);
            let counts = !is_paused(&service) && !is_full && !self.invariants.is_called(&uid);
            let silent = match record {
                Some(record) if counts => (record.silent + step).min(undisturbed),
                Some(record) => record.silent,
                None => Duration::ZERO,
            };
            let since = Since { waiting, silent };
            let bound = bound(&service, &since, is_of_targets);
            if since.silent > bound {
                let name = service.metadata.name.unwrap_or_default();
                return Err(format!(
                    "{name} ({uid}) waits for {:?} without a call and without a new condition \
                     ({}): {}",
                    since.silent,
                    since.waiting.conditions,
                    wrong.join("; ")
                ));
            }
            self.waiting.insert(uid, since);
        }
        Ok(())
    }
}

fn is_paused(service: &Service) -> bool {
    let mut annotations = service.metadata.annotations.iter().flatten();
    annotations.any(|(key, value)| key == ANNOTATION_PAUSED && value == "true")
}

/// True if only the finalizer of another controller keeps the Service.
fn is_held(service: &Service) -> bool {
    let meta = &service.metadata;
    let mut finalizers = meta.finalizers.iter().flatten();
    meta.deletion_timestamp.is_some() && !finalizers.any(|name| name == FINALIZER)
}

/// How long nothing may happen about a Service that differs.
fn bound(service: &Service, since: &Since, is_of_targets: bool) -> Duration {
    let conditions = conditions(service);
    let is_loud = [ACCEPTED, PROVISIONED, TARGETS_IN_SYNC]
        .iter()
        .any(|kind| conditions.get(kind) == Some(&"False"));
    let waiting = &since.waiting;
    match waiting.calls {
        calls if calls.deletions > 0 => DELETION,
        // A provider that stood still may have read none of the calls that failed.
        _ if waiting.is_deleted && is_loud => DELETION,
        _ if waiting.is_deleted => SILENT,
        calls if calls.whole == 0 => FIRST,
        _ if is_loud => LOUD,
        _ if is_of_targets => TARGETS,
        _ => SILENT,
    }
}

//! Rollout of targets: the nodes that load balancers send to, and their way to all load balancers.
//!
//! ```text
//!  node changed ─┬► Debounce ─► refresh ─► publish ─► (a call each: update) ─► all have them?
//!                └──────► Ensure ─► refresh                                         │
//!                                                                                   ▼
//!                                                                         LeaseTargets::name
//! ```
//!
//! A refresh reads the nodes from the store through [`EmptyTargets`] and makes them the current targets.
//! An Ensure refreshes stale targets before its call; to load balancers that exist they are published, after
//! the debounce.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use outrigger_core::{
    node::NodeView,
    service::ServiceView,
    targets::{EmptyTargets, Inheritance, TargetLabels, TargetPool, TargetRules, is_too_large},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::{
    decisions::{Decisions, may_concern},
    event_handlers::NodeChanges,
    lease_targets::LeaseTargets,
    metrics::ServiceMetrics,
    states::ServiceKey,
};
use crate::queue::{Priority, Queue};
use outrigger_kube::store::Store;
use outrigger_runtime::clock::until;

/// From progress to the check whether all have the targets, which goes over all Services.
const CHECK_DELAY: Duration = Duration::from_millis(500);

/// Ensures in this time share one set of targets, since each set is uploaded and providers keep only two.
const SHARED: Duration = Duration::from_millis(100);

/// Selects the targets, and brings them to all load balancers.
pub(super) struct Rollout {
    pub(super) decisions: Arc<Decisions>,
    pub(super) lease: Arc<LeaseTargets>,
    pub(super) queue: Queue<ServiceKey>,
    pub(super) metrics: ServiceMetrics,
    pub(super) nodes: Arc<Store<NodeView>>,
    pub(super) node_changes: Arc<NodeChanges>,
    pub(super) selection: Mutex<Selection>,
    /// Since when load balancers get other targets; none: all have the current ones.
    pub(super) since: Mutex<Option<Instant>>,
}

/// How the current targets were selected.
#[derive(Default)]
pub(super) struct Selection {
    empty: EmptyTargets,
    /// True if the targets were selected by the rules of a provider.
    has_rules: bool,
    /// When the nodes were read.
    at: Option<Instant>,
    /// True if the current targets were published.
    is_published: bool,
    /// Until when nodes are kept as targets, since there would be none.
    held: Option<Timestamp>,
    /// How many nodes are too large.
    too_large: usize,
}

impl Rollout {
    /// Makes the nodes of the store the current targets.
    pub(super) fn refresh(&self) {
        let selection = &mut *self.selection.lock();
        let capability = self.decisions.capability();
        let current = self.decisions.pool();
        let had_rules = selection.has_rules;
        selection.has_rules |= capability.is_some();
        // While the provider is away, its last rules hold.
        let rules = capability.map_or_else(|| current.rules().clone(), |now| now.targets.clone());
        let labels = self.node_changes.begin_read(|| TargetLabels {
            rules,
            has_selectors: self.has_selectors(),
        });
        let nodes = self.nodes.all();
        let too_large: Vec<_> = nodes.iter().filter(|node| is_too_large(node)).collect();
        if let [node, ..] = *too_large
            && too_large.len() > selection.too_large
        {
            warn!(
                node = &*node.name,
                nodes = too_large.len(),
                "Node is no target of load balancers: its provider ID, addresses and taints take more than 32 KiB"
            );
        }
        selection.too_large = too_large.len();
        self.metrics.nodes_too_large.set(too_large.len() as i64);
        let (targets, held) = selection
            .empty
            .targets(self.decisions.now(), nodes, current.all());
        if let Some(until) = held.filter(|_| selection.held.is_none()) {
            warn!(
                kept = targets.len(),
                %until,
                "no Node is a target of load balancers any more, though Nodes exist; the last targets stay for a while"
            );
        }
        self.metrics.targets_held.set(held.is_some().into());
        self.metrics.targets.set(targets.len() as i64);
        selection.held = held;
        selection.at = Some(Instant::now());
        let pool = TargetPool::of(targets, labels);
        let revision = pool.revision().clone();
        // An Ensure may give others before they are published: a return to the published ones is news then.
        selection.is_published &= *current.revision() == revision;
        self.lease.aim(&revision);
        *self.decisions.targets.write() = pool.into();
        if !had_rules
            && selection.has_rules
            && self.lease.inheritance(&revision) == Inheritance::InSync
        {
            // With the number of this term.
            self.lease.name(&revision);
        }
    }

    fn has_selectors(&self) -> bool {
        let selects = |service: &ServiceView| may_concern(service) && service.selects();
        self.decisions.services.any(selects)
    }

    /// Selects the targets by the rules that the provider declares, if they are others than before.
    pub(super) fn apply_rules(&self, rules: &TargetRules) {
        let is_first = !self.selection.lock().has_rules;
        if is_first || self.decisions.pool().rules() != rules {
            self.refresh();
            self.publish();
        }
    }

    /// Refreshes the targets if nodes have changed since, so that a load balancer is made with the nodes of
    /// the store. The others get them when the debounce is over. Waits up to 100 ms.
    pub(super) async fn refresh_stale(&self) {
        if !self.node_changes.is_stale() {
            return;
        }
        let last = self.selection.lock().at;
        if let Some(last) = last {
            sleep_until(last + SHARED).await;
        }
        let is_shared = self.selection.lock().at != last;
        if self.node_changes.is_stale() && !is_shared {
            self.refresh();
            // Without this, no debounce might be due that would publish them.
            self.node_changes.changed.notify_one();
        }
    }

    /// Publishes the current targets: queues the load balancers that exist and do not have them.
    pub(super) fn publish(&self) {
        let pool = {
            let selection = &mut *self.selection.lock();
            if std::mem::replace(&mut selection.is_published, true) {
                return;
            }
            self.decisions.pool()
        };
        if self.lease.names(pool.revision()) {
            // Back to those that all of them have, before any got others.
            *self.since.lock() = None;
        } else {
            self.since.lock().get_or_insert_with(Instant::now);
            self.queue_without_targets();
        }
        self.lease.progressed();
    }

    /// Queues the Services whose load balancers do not have the current targets. Queues none while
    /// there is no session: the next one calls this again.
    pub(super) fn queue_without_targets(&self) {
        if let Some(inputs) = self.decisions.inputs() {
            let keys = self.decisions.may_lack_targets(&inputs);
            self.queue.add_all(keys, Priority::Update);
        }
    }

    /// Publishes changes of the nodes after the debounce, and records when every load balancer has them.
    /// Never returns.
    pub(super) async fn run(&self) {
        self.publish();
        let mut check: Option<Timestamp> = None;
        loop {
            let (held, is_unpublished) = {
                let selection = self.selection.lock();
                (selection.held, !selection.is_published)
            };
            let due = self.node_changes.debounce.lock().due();
            if is_unpublished && due.is_none() {
                // An Ensure refreshed them at the end of a hold, on a change without effect on the revision.
                self.publish();
            }
            let next = due.into_iter().chain(held).chain(check).min();
            let time = async {
                match next {
                    Some(time) => sleep(until(time, self.decisions.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.node_changes.changed.notified() => {}
                () = time => {}
                () = self.lease.progress(), if check.is_none() => {
                    check = self.decisions.now().checked_add(CHECK_DELAY).ok();
                }
            }
            let now = self.decisions.now();
            let is_time = self.node_changes.debounce.lock().expire(now);
            if is_time || held.is_some_and(|until| until <= now) {
                self.refresh();
                self.publish();
            }
            if check.is_some_and(|at| at <= now) {
                check = None;
                self.finish();
            }
        }
    }

    /// Records the current targets as applied, if every load balancer has them.
    fn finish(&self) {
        let pool = self.decisions.pool();
        let revision = pool.revision();
        if self.lease.names(revision) {
            return;
        }
        // Its Service may be there, though a list did not show it: then it is among those that need the targets.
        if !self.decisions.states.orphaned().is_empty() {
            return;
        }
        let Some(inputs) = self.decisions.inputs() else {
            return;
        };
        if self.decisions.blocks_lease(&inputs) || !self.lease.name(revision) {
            return;
        }
        if let Some(since) = self.since.lock().take() {
            self.metrics.rolled_out(since.elapsed());
        }
    }
}

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
    service::capability::Capability,
    targets::{EmptyTargets, Inheritance, Revision, TargetPool, TargetRequests, TargetRules},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

mod node_changes;

pub(super) use self::node_changes::NodeChanges;
use super::{
    decisions::{Decisions, may_concern},
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
    decisions: Arc<Decisions>,
    lease: Arc<LeaseTargets>,
    queue: Queue<ServiceKey>,
    metrics: ServiceMetrics,
    nodes: Arc<Store<NodeView>>,
    node_changes: Arc<NodeChanges>,
    selection: Mutex<Selection>,
    /// The rollout in flight; none: all have the current targets.
    in_flight: Mutex<Option<RolloutInFlight>>,
}

/// How the current targets were selected.
struct Selection {
    empty: EmptyTargets,
    /// The last declarations of the provider, by whose rules the targets were selected; none: by no rules.
    capability: Option<Arc<Capability>>,
    /// When the nodes were read.
    at: Option<Instant>,
    /// The targets that were published last, if they go out still.
    published: Option<Revision>,
    /// Until when nodes are kept as targets, since there would be none.
    held: Option<Timestamp>,
}

/// Since when load balancers get other targets.
#[derive(Clone, Copy)]
struct RolloutInFlight {
    /// When the nodes changed.
    changed: Instant,
    /// When the first call could be made.
    sent: Instant,
}

impl Rollout {
    pub(super) fn new(
        decisions: Arc<Decisions>,
        lease: Arc<LeaseTargets>,
        queue: Queue<ServiceKey>,
        metrics: ServiceMetrics,
        nodes: Arc<Store<NodeView>>,
        node_changes: Arc<NodeChanges>,
    ) -> Self {
        Self {
            decisions,
            lease,
            queue,
            metrics,
            nodes,
            node_changes,
            selection: Mutex::new(Selection {
                empty: EmptyTargets::default(),
                capability: None,
                at: None,
                published: None,
                held: None,
            }),
            in_flight: Mutex::default(),
        }
    }

    /// Makes the nodes of the store the current targets.
    pub(super) fn refresh(&self) {
        let selection = &mut *self.selection.lock();
        let had_rules = selection.capability.is_some();
        if let Some(capability) = self.decisions.capability() {
            selection.capability = Some(capability);
        }
        self.node_changes.mark_read();
        let requests = self
            .node_changes
            .set_requests(|| self.requests(selection.capability.as_deref()));
        let current = self.decisions.pool();
        let (targets, held) =
            selection
                .empty
                .targets(self.decisions.now(), self.nodes.all(), current.all());
        if let Some(until) = held.filter(|_| selection.held.is_none()) {
            warn!(
                kept = targets.len(),
                %until,
                "no Node is a target of load balancers any more, though Nodes exist; the last targets stay for a while"
            );
        }
        self.metrics.held(held.is_some());
        self.metrics.targets(targets.len());
        selection.held = held;
        selection.at = Some(Instant::now());
        let pool = TargetPool::of(targets, &requests, Some(&current));
        let revision = pool.revision().clone();
        // An Ensure may give others before they are published: a return to the published ones is news then.
        selection.published.take_if(|before| *before != revision);
        self.lease.aim(&revision);
        *self.decisions.targets.write() = pool.into();
        if !had_rules
            && selection.capability.is_some()
            && self.lease.inheritance(&revision) == Inheritance::InSync
        {
            // With the number of this term.
            self.lease.name(&revision);
        }
    }

    /// Everything that targets depend on beside the nodes.
    fn requests(&self, capability: Option<&Capability>) -> TargetRequests {
        let rules = capability.map(|capability| capability.targets.clone());
        let mut requests = TargetRequests::new(rules.unwrap_or_default());
        self.decisions.services.for_each(|service| {
            if may_concern(service) {
                requests.add(&service.annotations);
            }
        });
        requests
    }

    /// Selects the targets by the rules that the provider declares, if they are others than before.
    pub(super) fn apply_rules(&self, rules: &TargetRules) {
        let is_first = self.selection.lock().capability.is_none();
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
        let sent = Instant::now();
        let changed = self.node_changes.since.lock().take().unwrap_or(sent);
        let pool = self.decisions.pool();
        let revision = Some(pool.revision().clone());
        if std::mem::replace(&mut self.selection.lock().published, revision.clone()) == revision {
            return;
        }
        if self.lease.names(pool.revision()) {
            // Back to those that all of them have, before any got others.
            *self.in_flight.lock() = None;
        } else {
            debug!(
                targets = pool.all().nodes().len(),
                revision = pool.revision().as_str(),
                "load balancers get other targets"
            );
            let since = RolloutInFlight { changed, sent };
            self.in_flight.lock().get_or_insert(since);
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
                (selection.held, selection.published.is_none())
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
        let in_flight = self.in_flight.lock().take();
        if let Some(RolloutInFlight { changed, sent }) = in_flight {
            self.metrics.rolled_out(changed.elapsed(), sent.elapsed());
        }
        debug!(
            revision = revision.as_str(),
            "every load balancer has the targets"
        );
    }
}

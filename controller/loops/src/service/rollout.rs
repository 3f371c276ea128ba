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

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use outrigger_core::{
    node::NodeView,
    service::capability::Capability,
    targets::{EmptyTargets, Inheritance, Revision, TargetPool, TargetRequests, TargetRules},
};
use parking_lot::Mutex;
use tokio::{
    task::yield_now,
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, warn};

mod node_changes;

pub(super) use self::node_changes::NodeChanges;
use super::term::{ServiceTerm, may_concern};
use outrigger_kubernetes::store::Store;
use outrigger_runtime::{clock::until, queue::Priority};

/// From progress to the check whether all have the targets, which goes over all Services.
const CHECK_DELAY: Duration = Duration::from_millis(500);

/// Ensures in this time share one set of targets, since each set is uploaded and providers keep only two.
const SHARED: Duration = Duration::from_millis(100);

/// Selects the targets, and brings them to all load balancers.
pub(super) struct Rollout {
    term: Arc<ServiceTerm>,
    nodes: Arc<Store<NodeView>>,
    node_changes: Arc<NodeChanges>,
    selection: Mutex<Selection>,
    /// The rollout in flight; none: all have the current targets.
    in_flight: Mutex<Option<RolloutInFlight>>,
}

/// How the current targets were selected.
struct Selection {
    empty: EmptyTargets,
    /// The last declarations of the provider.
    capability: Option<Arc<Capability>>,
    /// When the nodes were read.
    at: Option<Instant>,
    /// The targets that were published last.
    published: Option<Revision>,
    /// True once each Service knows what the Lease says of its load balancer.
    has_begun: bool,
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
        term: Arc<ServiceTerm>,
        nodes: Arc<Store<NodeView>>,
        node_changes: Arc<NodeChanges>,
    ) -> Self {
        Self {
            term,
            nodes,
            node_changes,
            selection: Mutex::new(Selection {
                empty: EmptyTargets::default(),
                capability: None,
                at: None,
                published: None,
                has_begun: false,
                held: None,
            }),
            in_flight: Mutex::default(),
        }
    }

    /// Makes the nodes of the store the current targets.
    pub(super) fn refresh(&self) {
        let selection = &mut *self.selection.lock();
        if let Some(capability) = self.term.capability() {
            selection.capability = Some(capability);
        }
        self.node_changes.mark_read();
        let requests = self
            .node_changes
            .set_requests(|| self.requests(selection.capability.as_deref()));
        let current = self.term.targets.current();
        let (targets, held) =
            selection
                .empty
                .targets(self.term.now(), self.nodes.all(), current.all());
        if let Some(until) = held.filter(|_| selection.held.is_none()) {
            warn!(
                kept = targets.len(),
                %until,
                "no Node is a target of load balancers any more, though Nodes exist; the last targets stay for a while"
            );
        }
        self.term.metrics.held(held.is_some());
        self.term.metrics.targets(targets.len());
        selection.held = held;
        selection.at = Some(Instant::now());
        let pool = TargetPool::of(targets, &requests, Some(&current));
        self.term.record.aim(pool.revision());
        self.term.targets.select(pool);
        if let Some(capability) = &selection.capability
            && !std::mem::replace(&mut selection.has_begun, true)
        {
            self.begin_term(capability);
        }
    }

    /// Tells each Service what the Lease says of its load balancer.
    fn begin_term(&self, capability: &Arc<Capability>) {
        let inputs = self.term.inputs_of(Arc::clone(capability));
        let inheritance = self.term.record.inheritance(inputs.pool.revision());
        self.term.among_services(&inputs, |state, service, facts| {
            state.progress.begin_term(inheritance, service, facts);
            false
        });
        if inheritance == Inheritance::InSync {
            // With the number of this term.
            self.term.record.name(inputs.pool.revision());
        }
    }

    /// Everything that targets depend on beside the nodes.
    fn requests(&self, capability: Option<&Capability>) -> TargetRequests {
        let rules = capability.map(|capability| capability.targets.clone());
        let mut requests = TargetRequests::new(rules.unwrap_or_default());
        self.term.services.for_each(|service| {
            if may_concern(service) {
                requests.add(&service.annotations);
            }
        });
        requests
    }

    /// Selects the targets by the rules that the provider declares, if they are others than before.
    pub(super) fn apply_rules(&self, rules: &TargetRules) {
        let is_first = !self.selection.lock().has_begun;
        if is_first || self.term.targets.current().rules() != rules {
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

    /// Evaluates the selectors of all Services for the current targets, and lets other tasks run in between: a selector may look at
    /// 16 labels of 5,000 nodes.
    async fn evaluate(&self) {
        let mut selectors = HashMap::new();
        self.term.services.for_each(|service| {
            if may_concern(service)
                && let Ok(selection) = service.selection()
                && let Some((text, selector)) = selection.selector
            {
                selectors.entry(text.into()).or_insert(selector);
            }
        });
        let pool = self.term.targets.current();
        for (text, selector) in pool.without_revision(selectors) {
            pool.evaluate(&text, &selector);
            yield_now().await;
        }
    }

    /// Publishes the current targets: queues the load balancers that exist and do not have them.
    pub(super) fn publish(&self) {
        let sent = Instant::now();
        let changed = self.node_changes.since.lock().take().unwrap_or(sent);
        let pool = self.term.targets.current();
        let revision = Some(pool.revision().clone());
        if std::mem::replace(&mut self.selection.lock().published, revision.clone()) == revision {
            return;
        }
        if self.term.record.names(pool.revision()) {
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
        self.term.record.progressed();
    }

    /// Queues the Services whose load balancers do not have the current targets. Queues none while
    /// there is no session: the next one calls this again.
    pub(super) fn queue_without_targets(&self) {
        if let Some(inputs) = self.term.inputs() {
            let keys = self.term.among_services(&inputs, |state, service, facts| {
                state.progress.needs_targets(service, facts)
            });
            self.term.queue.add_all(keys, Priority::Update);
        }
    }

    /// Publishes changes of the nodes after the debounce, and records when every load balancer has them.
    /// Never returns.
    pub(super) async fn run(&self) {
        self.evaluate().await;
        self.publish();
        let mut check: Option<Timestamp> = None;
        loop {
            let (held, is_unpublished) = {
                let current = self.term.targets.current();
                let selection = self.selection.lock();
                let is_published = selection.published.as_ref() == Some(current.revision());
                (selection.held, !is_published)
            };
            let due = self.node_changes.debounce.lock().due();
            if is_unpublished && due.is_none() {
                // An Ensure refreshed them at the end of a hold, on a change without effect on the revision.
                self.evaluate().await;
                self.publish();
            }
            let next = due.into_iter().chain(held).chain(check).min();
            let time = async {
                match next {
                    Some(time) => sleep(until(time, self.term.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.node_changes.changed.notified() => {}
                () = time => {}
                () = self.term.record.progress(), if check.is_none() => {
                    check = self.term.now().checked_add(CHECK_DELAY).ok();
                }
            }
            let now = self.term.now();
            let is_time = self.node_changes.debounce.lock().expire(now);
            if is_time || held.is_some_and(|until| until <= now) {
                self.refresh();
                self.evaluate().await;
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
        let pool = self.term.targets.current();
        let revision = pool.revision();
        if self.term.record.names(revision) {
            return;
        }
        // Its Service may be there, though a list did not show it: then it is among those that need the targets.
        if !self.term.states.orphaned().is_empty() {
            return;
        }
        let Some(inputs) = self.term.inputs() else {
            return;
        };
        let blocking = self.term.among_services(&inputs, |state, service, facts| {
            let is_called_with_others = state
                .calling
                .as_ref()
                .is_some_and(|calling| calling != facts.targets);
            is_called_with_others || state.progress.blocks_lease(service, facts)
        });
        if !blocking.is_empty() || !self.term.record.name(revision) {
            return;
        }
        let in_flight = self.in_flight.lock().take();
        if let Some(RolloutInFlight { changed, sent }) = in_flight {
            self.term
                .metrics
                .rolled_out(changed.elapsed(), sent.elapsed());
        }
        debug!(
            revision = revision.as_str(),
            "every load balancer has the targets"
        );
    }
}

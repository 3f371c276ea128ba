//! The targets that go out now, and which of them every load balancer has.
//!
//! ```text
//!  node changed ─┬► Debounce ─► take ─► announce ─► (one batch: update) ─► all have it?
//!                └────────► an Ensure ─► take                                  │
//!                                                                              │
//!  Lease: outrigger.dev/load-balancer-targets ◄── forgotten before the call ───┴── written
//! ```
//!
//! Taking reads the nodes of now through the [`ShrinkGuard`] and makes them the current targets. An
//! Ensure takes what waits before it goes out; the load balancers that exist get it by the
//! announcement, which alone is debounced. Which targets all of them have is remembered in
//! [`super::applied`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use jiff::Timestamp;
use outrigger_core::{
    node::NodeView,
    service::plan::Progress,
    targets::{Allowance, HeldTargets, Proposal, ShrinkGuard, Targets},
};
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, warn};

use super::{ServiceLb, applied::Applied};
use crate::{clock::until, kube::nodes, leader::Handle, queue::Priority};

/// From a step forward to the look whether all have the targets, which goes over all Services.
const LOOK: Duration = Duration::from_millis(500);

/// Ensures in this time go out with one set of targets, since each set is uploaded and providers keep
/// only two.
const SHARED: Duration = Duration::from_millis(100);

/// Nodes whose deletion is confirmed at one time.
const CONFIRMED_AT_ONCE: usize = 16;

pub(super) struct Rollout {
    taking: Mutex<Taking>,
    current: RwLock<Arc<Targets>>,
    /// Number of announcements of other targets.
    announced: AtomicU64,
    /// Wakes the confirmation of deletions.
    has_missing: Notify,
    pub(super) applied: Applied,
    /// The announcement in flight; none: all have the current targets.
    under_way: Mutex<Option<UnderWay>>,
}

/// How the current targets came about.
struct Taking {
    guard: ShrinkGuard,
    /// When they were taken.
    at: Option<Instant>,
    /// Whether load balancers that exist were not told of them yet.
    is_news: bool,
    /// Set while the guard holds nodes back.
    held: Option<HeldTargets>,
}

/// Since when load balancers are given other targets.
#[derive(Clone, Copy)]
struct UnderWay {
    /// When the nodes changed.
    changed: Instant,
    /// When the first call could be made.
    sent: Instant,
}

impl Rollout {
    pub(super) fn new(lease: Option<Handle>, allowance: Allowance) -> Self {
        Self {
            taking: Mutex::new(Taking {
                guard: ShrinkGuard::new(allowance),
                at: None,
                is_news: false,
                held: None,
            }),
            current: RwLock::new(Arc::new(Targets::among([]))),
            announced: AtomicU64::default(),
            has_missing: Notify::new(),
            applied: Applied::new(lease),
            under_way: Mutex::default(),
        }
    }

    pub(super) fn current(&self) -> Arc<Targets> {
        Arc::clone(&self.current.read())
    }

    /// Another value after each announcement of targets.
    pub(super) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }
}

impl ServiceLb {
    /// Makes the nodes of now the current targets, except those that the guard holds back.
    pub(super) fn take_targets(&self) {
        let rollout = &self.rollout;
        let taking = &mut *rollout.taking.lock();
        self.node_changes.taken();
        let missing = self.node_changes.missing();
        let Proposal { targets, held } =
            taking
                .guard
                .propose(self.now(), self.parts.nodes.all(), &missing);
        self.node_changes.keep_missing(&targets);
        taking.at = Some(Instant::now());
        let metrics = &self.parts.metrics;
        metrics.held(held.is_some());
        metrics.targets(targets.nodes().len());
        if let Some(HeldTargets {
            until,
            kept,
            missing,
        }) = held
        {
            if taking.held.is_none() {
                warn!(
                    kept,
                    missing,
                    targets = targets.nodes().len(),
                    %until,
                    "too many nodes stop being targets of load balancers in one step though they are \
                     not deleted; they stay targets for a while"
                );
            }
            if missing > 0 {
                rollout.has_missing.notify_one();
            }
        }
        taking.held = held;
        rollout.applied.begins_with(&targets);
        taking.is_news |= rollout.current().revision() != targets.revision();
        *rollout.current.write() = targets;
    }

    /// Takes in the changes of nodes that still wait, so that a load balancer is made with the nodes
    /// of now. The others get them when the debounce is over. Waits up to 100 ms.
    pub(super) async fn take_waiting_nodes(&self) {
        if !self.node_changes.is_stale() {
            return;
        }
        let taken = self.rollout.taking.lock().at;
        if let Some(taken) = taken {
            sleep_until(taken + SHARED).await;
        }
        let is_shared = self.rollout.taking.lock().at != taken;
        if self.node_changes.is_stale() && !is_shared {
            self.take_targets();
            // The others may wait for no change that would announce what was taken.
            self.node_changes.changed.notify_one();
        }
    }

    /// Has the load balancers that exist given the current targets.
    pub(super) fn announce(&self) {
        let rollout = &self.rollout;
        let is_news = std::mem::take(&mut rollout.taking.lock().is_news);
        let sent = Instant::now();
        let changed = self.node_changes.since.lock().take().unwrap_or(sent);
        if !is_news {
            return;
        }
        let targets = rollout.current();
        rollout.announced.fetch_add(1, Ordering::AcqRel);
        if rollout.applied.is(targets.revision()) {
            // Back to what all of them have, before any was given something else.
            *rollout.under_way.lock() = None;
        } else {
            debug!(
                targets = targets.nodes().len(),
                revision = targets.revision().as_str(),
                "load balancers are given other targets"
            );
            let mut under_way = rollout.under_way.lock();
            under_way.get_or_insert(UnderWay { changed, sent });
            drop(under_way);
            self.queue_without_targets();
        }
        rollout.applied.progressed();
    }

    /// Queues the Services whose load balancers do not have the current targets, as one batch. Queues none while
    /// there is no session: the next one calls this again.
    pub(super) fn queue_without_targets(&self) {
        let keys = self.among_services(Progress::needs_targets);
        self.queue.add_all(keys, Priority::Batch);
    }

    /// Sends out what changes among the nodes, and remembers when every load balancer has it. Never
    /// returns.
    pub(super) async fn follow_nodes(&self) {
        let mut look: Option<Timestamp> = None;
        loop {
            let (held, is_news) = {
                let taking = self.rollout.taking.lock();
                (taking.held.map(|held| held.until), taking.is_news)
            };
            let due = self.node_changes.debounce.lock().due();
            if is_news && due.is_none() {
                // An Ensure took them at the end of a hold, with a change that makes no revision.
                self.announce();
            }
            let next = due.into_iter().chain(held).chain(look).min();
            let time = async {
                match next {
                    Some(time) => sleep(until(time, self.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.node_changes.changed.notified() => {}
                () = time => {}
                () = self.rollout.applied.progress(), if look.is_none() => {
                    look = self.now().checked_add(LOOK).ok();
                }
            }
            let now = self.now();
            let is_time = self.node_changes.debounce.lock().expire(now);
            if is_time || held.is_some_and(|until| until <= now) {
                self.take_targets();
                self.announce();
            }
            if look.is_some_and(|at| at <= now) {
                look = None;
                self.look_whether_all_have_them().await;
            }
        }
    }

    /// Asks the API server about the Nodes that a list did not show, where the guard holds them back:
    /// those that are deleted need not wait. Never returns.
    pub(super) async fn confirm_deletions(&self) {
        loop {
            self.rollout.has_missing.notified().await;
            let names = futures::stream::iter(self.node_changes.missing());
            let looks = names.map(|name| async move { (self.is_deleted(&name).await, name) });
            let looks = looks.buffer_unordered(CONFIRMED_AT_ONCE);
            let deleted = looks.filter_map(async |(is_deleted, name)| is_deleted.then_some(name));
            let deleted: Vec<_> = deleted.collect().await;
            self.node_changes.confirm_deleted(self.now(), &deleted);
        }
    }

    /// Whether the API server says that the Node `name` of the current targets is deleted.
    async fn is_deleted(&self, name: &str) -> bool {
        let targets = self.rollout.current();
        let known = targets.get(name);
        let path = nodes::path(name);
        match self.parts.api.get::<NodeView>(&path).await {
            Ok(live) if known.is_some_and(|known| known.uid == live.uid) => {
                warn!(
                    node = name,
                    "a list did not show the Node, but the API server has it"
                );
                false
            }
            Ok(_) => true,
            Err(error) if error.is_not_found() => true,
            Err(error) => {
                debug!(
                    node = name,
                    %error,
                    "Node not confirmed as deleted"
                );
                false
            }
        }
    }

    async fn look_whether_all_have_them(&self) {
        let rollout = &self.rollout;
        let targets = rollout.current();
        let revision = targets.revision();
        if rollout.applied.is(revision) || self.capability().is_none() {
            return;
        }
        let all_have_it = || {
            self.among_services(Progress::blocks_lease_revision)
                .is_empty()
        };
        if !rollout.applied.finish(revision, all_have_it).await {
            return;
        }
        let under_way = rollout.under_way.lock().take();
        if let Some(UnderWay { changed, sent }) = under_way {
            let metrics = &self.parts.metrics;
            metrics.rolled_out(changed.elapsed(), sent.elapsed());
        }
        debug!(
            revision = revision.as_str(),
            "every load balancer has the targets"
        );
    }
}

//! The targets that go out now, and which of them every load balancer has.
//!
//! ```text
//!  node changed ─┬► Debounce ─► take ─► announce ─► (each Service: update) ─► all have it?
//!                └────────► an Ensure ─► take                                     │
//!                                                                                 │
//!  Lease: outrigger.dev/load-balancer-targets ◄── forgotten before the first call └── written
//! ```
//!
//! Taking reads the nodes of now through the [`ShrinkGuard`] and makes them the current targets.
//! An Ensure takes what waits before it goes out; the load balancers that exist are told of it by the
//! announcement, which alone is debounced.
//!
//! That all have it is remembered once, on the Lease, and not on each Service: nodes that come and
//! go must not write every Service. It is forgotten before the first call that gives other targets:
//! the call may work and its answer be lost with this process.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use jiff::Timestamp;
use outrigger_core::{
    node::NodeView,
    service::plan::Progress,
    targets::{Allowance, Held, Proposal, Revision, ShrinkGuard, Targets},
};
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, warn};

use super::ServiceLb;
use crate::{clock::until, kube::nodes, leader::Handle, queue::Priority};

/// Annotation of the Lease with the revision of the targets that every load balancer has.
pub const TARGETS_ANNOTATION: &str = "outrigger.dev/load-balancer-targets";

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
    /// Targets presumed of load balancers that this lease term has not given any.
    at_start: OnceLock<Revision>,
    /// How often load balancers that exist were told of other targets.
    announced: AtomicU64,
    /// Wakes the confirmation of deletions.
    has_missing: Notify,
    applied: Mutex<Option<Revision>>,
    /// What goes out; none: all have the current targets.
    under_way: Mutex<Option<UnderWay>>,
    /// Revisions that are being given to load balancers, and to how many.
    given: Mutex<HashMap<Revision, usize>>,
    lease: Option<Handle>,
    progressed: Notify,
}

/// How the current targets came about.
struct Taking {
    guard: ShrinkGuard,
    /// When they were taken.
    at: Option<Instant>,
    /// Whether load balancers that exist were not told of them yet.
    is_news: bool,
    /// Set while the guard holds nodes back.
    held: Option<Held>,
}

/// Since when load balancers are given other targets.
#[derive(Clone, Copy)]
struct UnderWay {
    /// When the nodes changed.
    changed: Instant,
    /// When the first call could be made.
    sent: Instant,
}

/// Some load balancer is being given a revision, as long as this lives: until what came of it is
/// known and written.
pub(super) struct Giving<'a> {
    rollout: &'a Rollout,
    revision: Revision,
}

impl Drop for Giving<'_> {
    fn drop(&mut self) {
        let mut given = self.rollout.given.lock();
        if let Some(count) = given.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                given.remove(&self.revision);
            }
        }
        drop(given);
        self.rollout.progressed();
    }
}

impl Rollout {
    pub(super) fn new(lease: Option<Handle>, allowance: Allowance) -> Self {
        let applied = lease
            .as_ref()
            .and_then(|lease| lease.annotation(TARGETS_ANNOTATION));
        Self {
            taking: Mutex::new(Taking {
                guard: ShrinkGuard::new(allowance),
                at: None,
                is_news: false,
                held: None,
            }),
            current: RwLock::new(Arc::new(Targets::among([]))),
            at_start: OnceLock::new(),
            announced: AtomicU64::default(),
            has_missing: Notify::new(),
            applied: Mutex::new(applied.as_deref().map(Revision::stored)),
            under_way: Mutex::default(),
            given: Mutex::default(),
            lease,
            progressed: Notify::new(),
        }
    }

    pub(super) fn current(&self) -> Arc<Targets> {
        Arc::clone(&self.current.read())
    }

    /// Another value after each announcement of targets.
    pub(super) fn announced(&self) -> u64 {
        self.announced.load(Ordering::Acquire)
    }

    /// The targets that every load balancer has.
    pub(super) fn applied(&self) -> Option<Revision> {
        self.applied.lock().clone()
    }

    /// As [`Self::applied`]; where that is not known, what is taken for it while a load balancer waits
    /// in the background lane: the targets with which this lease term began, that of an earlier leader
    /// if it said so.
    pub(super) fn presumed(&self) -> Option<Revision> {
        self.applied().or_else(|| self.at_start.get().cloned())
    }

    /// To be awaited before a call that gives targets, and kept until its answer is written. None:
    /// not now, this process leads no more.
    pub(super) async fn begin(&self, revision: &Revision) -> Option<Giving<'_>> {
        *self.given.lock().entry(revision.clone()).or_default() += 1;
        let giving = Giving {
            rollout: self,
            revision: revision.clone(),
        };
        if self.applied.lock().as_ref() == Some(revision) {
            return Some(giving);
        }
        if let Some(lease) = &self.lease
            && lease.annotation(TARGETS_ANNOTATION).is_some()
        {
            lease.annotate(TARGETS_ANNOTATION, None).await.ok()?;
        }
        *self.applied.lock() = None;
        Some(giving)
    }

    /// A load balancer has other targets now, or there is one less to have them.
    pub(super) fn progressed(&self) {
        self.progressed.notify_one();
    }

    /// Whether a load balancer is being given other targets than these.
    fn gives_others(&self, revision: &Revision) -> bool {
        self.given.lock().keys().any(|given| given != revision)
    }

    async fn finish(&self, revision: &Revision) {
        *self.applied.lock() = Some(revision.clone());
        if let Some(lease) = &self.lease {
            let text = revision.as_str().to_owned();
            // Else the next leader gives them once more.
            let _ = lease.annotate(TARGETS_ANNOTATION, Some(text)).await;
        }
    }
}

impl ServiceLb {
    /// Makes the nodes of now the current targets, but for those that the guard holds back.
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
        if let Some(Held {
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
                    "too many nodes stop being targets of load balancers in one step though they are \
                     not deleted; they stay targets until {until}"
                );
            }
            if missing > 0 {
                rollout.has_missing.notify_one();
            }
        }
        taking.held = held;
        rollout.at_start.get_or_init(|| {
            let applied = rollout.applied();
            applied.unwrap_or_else(|| targets.revision().clone())
        });
        taking.is_news |= rollout.current().revision() != targets.revision();
        *rollout.current.write() = targets;
    }

    /// Takes in the changes of nodes that still wait, so that a load balancer is made with the nodes
    /// of now. The others are told of them when the debounce is over. Waits up to 100 ms.
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
        if rollout.applied().as_ref() == Some(targets.revision()) {
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
        rollout.progressed();
    }

    /// Queues the Services whose load balancers do not have the current targets. Queues none while
    /// there is no session: the next one calls this again.
    pub(super) fn queue_without_targets(&self) {
        for key in self.among_services(Progress::lacks_targets) {
            self.queue.add(key, Priority::Fresh);
        }
    }

    /// Sends out what changes among the nodes, and remembers when every load balancer has it. Never
    /// returns.
    pub(super) async fn follow_nodes(&self) {
        let mut look: Option<Timestamp> = None;
        loop {
            let due = self.node_changes.debounce.lock().due();
            let held = self.rollout.taking.lock().held.map(|held| held.until);
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
                () = self.rollout.progressed.notified(), if look.is_none() => {
                    look = self.now().checked_add(LOOK).ok();
                }
            }
            let now = self.now();
            let is_time = self.node_changes.debounce.lock().take(now);
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
                    "cannot confirm that the Node is deleted: {error}"
                );
                false
            }
        }
    }

    async fn look_whether_all_have_them(&self) {
        let rollout = &self.rollout;
        let targets = rollout.current();
        let revision = targets.revision();
        if rollout.applied().as_ref() == Some(revision)
            || self.capability().is_none()
            || rollout.gives_others(revision)
            || !self.among_services(Progress::holds_up_lease).is_empty()
        {
            return;
        }
        rollout.finish(revision).await;
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

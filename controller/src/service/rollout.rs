//! The targets that go out now, and which of them every load balancer has.
//!
//! ```text
//!  node changed ─► Debounce ─► ShrinkGuard ─► current ─► (each Service: update) ─► all have it?
//!                                                 │                                     │
//!  Lease: outrigger.dev/load-balancer-targets     └── forgotten before the first call   └── written
//! ```
//!
//! That all have it is remembered once, on the Lease, and not on each Service: nodes that come and
//! go must not write every Service. It is forgotten before the first call that gives other targets:
//! the call may work and its answer be lost with this process.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use outrigger_core::targets::{Allowance, Revision, ShrinkGuard, Step, Targets};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use super::{
    ServiceLb,
    intake::{self, Key},
};
use crate::{clock::until, leader::Handle, queue::Priority};

/// Annotation of the Lease with the revision of the targets that every load balancer has.
pub const TARGETS_ANNOTATION: &str = "outrigger.dev/load-balancer-targets";

/// From a step forward to the look whether all have the targets, which goes over all Services.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct Rollout {
    guard: Mutex<ShrinkGuard>,
    current: watch::Sender<Arc<Targets>>,
    applied: Mutex<Option<Revision>>,
    /// What goes out; none: all have the current targets.
    under_way: Mutex<Option<UnderWay>>,
    /// Revisions that are being given to load balancers, and to how many.
    given: Mutex<HashMap<Revision, usize>>,
    lease: Option<Handle>,
    progressed: Notify,
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
            guard: Mutex::new(ShrinkGuard::new(allowance)),
            current: watch::Sender::new(Arc::new(Targets::among([]))),
            applied: Mutex::new(applied.as_deref().map(Revision::stored)),
            under_way: Mutex::default(),
            given: Mutex::default(),
            lease,
            progressed: Notify::new(),
        }
    }

    pub(super) fn current(&self) -> Arc<Targets> {
        Arc::clone(&self.current.borrow())
    }

    /// Returns when other targets than these go out.
    pub(super) async fn leaves(&self, revision: &Revision) {
        let mut current = self.current.subscribe();
        // The sender lives as long as self: waiting cannot fail.
        let _ = current
            .wait_for(|targets| targets.revision() != revision)
            .await;
    }

    /// The targets that every load balancer has.
    pub(super) fn applied(&self) -> Option<Revision> {
        self.applied.lock().clone()
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
    /// Takes the nodes of now for the targets, unless too many of the last ones are gone. Tells until
    /// when they are held back.
    pub(super) fn take_targets(&self) -> Option<Timestamp> {
        let targets = Targets::among(self.parts.nodes.all());
        let now = self.now();
        let step = self.rollout.guard.lock().propose(now, &targets);
        self.parts.metrics.held(step != Step::Go);
        match step {
            Step::Go => {
                self.send_out(targets);
                None
            }
            Step::Hold { until, gone } => {
                warn!(
                    gone,
                    left = targets.nodes().len(),
                    "too many nodes stop being targets of load balancers in one step;                      not believed before {until}"
                );
                Some(until)
            }
        }
    }

    fn send_out(&self, targets: Targets) {
        let rollout = &self.rollout;
        self.parts.metrics.targets(targets.nodes().len());
        if rollout.current().revision() == targets.revision() {
            return;
        }
        debug!(
            targets = targets.nodes().len(),
            revision = targets.revision().as_str(),
            "load balancers are given other targets"
        );
        rollout.current.send_replace(Arc::new(targets));
        let sent = Instant::now();
        let changed = self.node_changes.since.lock().take().unwrap_or(sent);
        rollout
            .under_way
            .lock()
            .get_or_insert(UnderWay { changed, sent });
        self.queue_without_targets();
        rollout.progressed();
    }

    /// Queues the Services whose load balancers do not have the current targets. Queues none while
    /// there is no session: the next one calls this again.
    pub(super) fn queue_without_targets(&self) {
        for key in self.without_targets() {
            self.queue.add(key, Priority::Fresh);
        }
    }

    /// The Services whose load balancers do not have the targets of now.
    fn without_targets(&self) -> Vec<Key> {
        let Some(ground) = self.ground() else {
            return Vec::new();
        };
        let mut keys = Vec::new();
        self.parts.services.for_each(|service| {
            if intake::may_concern(service) {
                let key = Key::of(service);
                let lacks = self.memory.with(&key.uid, |progress| {
                    progress.lacks_targets(service, &ground.facts())
                });
                if lacks {
                    keys.push(key);
                }
            }
        });
        keys
    }

    /// Sends out what changes among the nodes, and remembers when every load balancer has it. Never
    /// returns.
    pub(super) async fn follow_nodes(&self) {
        let mut held: Option<Timestamp> = None;
        let mut look: Option<Timestamp> = None;
        loop {
            let due = self.node_changes.debounce.lock().due();
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
                held = self.take_targets();
            }
            if look.is_some_and(|at| at <= now) {
                look = None;
                self.look_whether_all_have_them().await;
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
            || !self.without_targets().is_empty()
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

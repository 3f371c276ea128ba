//! The targets of load balancers as they are now.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use outrigger_core::targets::Targets;
use parking_lot::RwLock;

use super::rollout::applied::Applied;
use outrigger_kubernetes::leader::Handle;

/// The targets that go out now, and those that all load balancers have.
pub(super) struct CurrentTargets {
    set: RwLock<Arc<Targets>>,
    /// How often targets were published.
    publications: AtomicU64,
    pub(super) applied: Applied,
}

impl CurrentTargets {
    pub(super) fn new(lease: Option<Handle>) -> Self {
        Self {
            set: RwLock::new(Arc::new(Targets::among([]))),
            publications: AtomicU64::default(),
            applied: Applied::new(lease),
        }
    }

    pub(super) fn current(&self) -> Arc<Targets> {
        Arc::clone(&self.set.read())
    }

    /// From now on these are the targets.
    pub(super) fn select(&self, targets: Arc<Targets>) {
        *self.set.write() = targets;
    }

    /// Counts a publication.
    pub(super) fn published(&self) {
        self.publications.fetch_add(1, Ordering::AcqRel);
    }

    /// Another number after each publication of targets.
    pub(super) fn publications(&self) -> u64 {
        self.publications.load(Ordering::Acquire)
    }
}

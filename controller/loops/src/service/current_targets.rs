//! The targets of load balancers as they are now.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use outrigger_core::targets::TargetPool;
use parking_lot::RwLock;

use super::rollout::applied::Applied;
use outrigger_kubernetes::leader::Handle;

/// The targets that go out now, and those that all load balancers have.
pub(super) struct CurrentTargets {
    pool: RwLock<Arc<TargetPool>>,
    /// How often targets were published.
    publications: AtomicU64,
    pub(super) applied: Applied,
}

impl CurrentTargets {
    pub(super) fn new(lease: Option<Handle>) -> Self {
        Self {
            pool: RwLock::default(),
            publications: AtomicU64::default(),
            applied: Applied::new(lease),
        }
    }

    pub(super) fn current(&self) -> Arc<TargetPool> {
        Arc::clone(&self.pool.read())
    }

    /// From now on these are the targets.
    pub(super) fn select(&self, pool: Arc<TargetPool>) {
        *self.pool.write() = pool;
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

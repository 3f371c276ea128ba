//! The targets of load balancers as they are now.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use outrigger_core::{
    service::ServiceView,
    targets::{TargetPool, Targets},
};
use parking_lot::{Mutex, RwLock};

use super::rollout::applied::Applied;
use outrigger_kubernetes::leader::Handle;

/// The targets that go out now, and those that all load balancers have.
pub(super) struct CurrentTargets {
    pool: RwLock<Arc<SharedPool>>,
    /// How often targets were published.
    publications: AtomicU64,
    pub(super) applied: Applied,
}

/// The targets of all Services at one moment, with the subsets that were chosen of them: each is asked for often.
pub(super) struct SharedPool {
    pool: Arc<TargetPool>,
    subsets: Mutex<HashMap<Box<str>, Subset>>,
}

/// The targets of one Service that has fewer than it selects.
struct Subset {
    selector: Option<Box<str>>,
    most: NonZeroUsize,
    targets: Arc<Targets>,
}

impl Deref for SharedPool {
    type Target = TargetPool;

    fn deref(&self) -> &TargetPool {
        &self.pool
    }
}

impl SharedPool {
    fn new(pool: Arc<TargetPool>) -> Arc<Self> {
        Arc::new(Self {
            pool,
            subsets: Mutex::default(),
        })
    }

    /// [`TargetPool::targets_of`].
    pub(super) fn targets_of(&self, service: &ServiceView) -> Arc<Targets> {
        // Nothing is done for a Service whose annotations are wrong.
        let selection = service.selection().unwrap_or_default();
        let Some(most) = self.most(&selection) else {
            return self.select(&service.uid, &selection);
        };
        let selector = selection.selector.as_ref().map(|(text, _)| *text);
        let mut subsets = self.subsets.lock();
        let same = |subset: &&Subset| subset.most == most && subset.selector.as_deref() == selector;
        if let Some(subset) = subsets.get(&service.uid).filter(same) {
            return Arc::clone(&subset.targets);
        }
        let targets = self.select(&service.uid, &selection);
        let subset = Subset {
            selector: selector.map(Into::into),
            most,
            targets: Arc::clone(&targets),
        };
        subsets.insert(service.uid.clone(), subset);
        targets
    }

    /// Returns true if `service` has fewer targets than it selects.
    pub(super) fn is_bounded(&self, service: &ServiceView) -> bool {
        // Only a subset is shared with no other Service.
        self.targets_of(service).set().is_none()
    }

    /// Returns true if the provider takes fewer targets than there are, so that most Services have targets of their own.
    pub(super) fn is_bounded_by_provider(&self) -> bool {
        let most = self.rules().most;
        most.is_some_and(|most| self.all().nodes().len() > most.get())
    }
}

impl CurrentTargets {
    pub(super) fn new(lease: Option<Handle>) -> Self {
        Self {
            pool: RwLock::new(SharedPool::new(Arc::default())),
            publications: AtomicU64::default(),
            applied: Applied::new(lease),
        }
    }

    pub(super) fn current(&self) -> Arc<SharedPool> {
        Arc::clone(&self.pool.read())
    }

    /// From now on these are the targets.
    pub(super) fn select(&self, pool: Arc<TargetPool>) {
        *self.pool.write() = SharedPool::new(pool);
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

//! The targets of load balancers as they are now.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use outrigger_core::{
    selector::Selector,
    service::ServiceView,
    targets::{Revision, TargetPool},
};
use parking_lot::{Mutex, RwLock};

/// Nodes that change together for which it is asked which selectors they concern. After a change of more, each selector is
/// evaluated again.
const FEW: usize = 16;

/// The targets that go out now.
#[derive(Default)]
pub(super) struct CurrentTargets {
    pool: RwLock<Arc<SharedPool>>,
}

/// The targets of all Services at one moment, with the revisions of those that selectors were evaluated for: they are asked for
/// often.
#[derive(Default)]
pub(super) struct SharedPool {
    pool: TargetPool,
    /// By the text of the selector.
    revisions: Mutex<HashMap<Box<str>, Revision>>,
}

impl Deref for SharedPool {
    type Target = TargetPool;

    fn deref(&self) -> &TargetPool {
        &self.pool
    }
}

impl SharedPool {
    /// With the revisions of `before` that the change of nodes does not concern.
    fn new(pool: TargetPool, before: &Self) -> Self {
        let differences = pool.differences(&before.pool);
        let mut revisions = HashMap::new();
        if differences.len() <= FEW {
            revisions.clone_from(&before.revisions.lock());
            revisions.retain(|text, _| {
                text.parse::<Selector>().is_ok_and(|selector| {
                    pool.knows(&selector)
                        && !differences
                            .iter()
                            .any(|node| selector.matches(&node.labels))
                })
            });
        }
        Self {
            pool,
            revisions: revisions.into(),
        }
    }

    /// The revision of the targets of `service`.
    pub(super) fn revision_of(&self, service: &ServiceView) -> Revision {
        // Nothing is done for a Service whose annotations are wrong.
        let selection = service.selection().unwrap_or_default();
        match &selection.selector {
            None => self.all().revision().clone(),
            Some((text, selector)) => match self.known(text) {
                Some(revision) => revision,
                None => self.evaluate(text, selector),
            },
        }
    }

    fn known(&self, text: &str) -> Option<Revision> {
        self.revisions.lock().get(text).cloned()
    }

    /// Evaluates a selector for all nodes, once for all Services that have it.
    pub(super) fn evaluate(&self, text: &str, selector: &Selector) -> Revision {
        let revision = self.pool.revision_of(selector);
        if self.pool.knows(selector) {
            let entry = (text.into(), revision.clone());
            self.revisions.lock().extend([entry]);
        }
        revision
    }

    /// Forgets all selectors but these, and returns those that are to be evaluated.
    pub(super) fn without_revision(
        &self,
        mut selectors: HashMap<Box<str>, Selector>,
    ) -> HashMap<Box<str>, Selector> {
        let mut revisions = self.revisions.lock();
        revisions.retain(|text, _| selectors.contains_key(text));
        selectors.retain(|text, _| !revisions.contains_key(text));
        selectors
    }
}

impl CurrentTargets {
    pub(super) fn current(&self) -> Arc<SharedPool> {
        Arc::clone(&self.pool.read())
    }

    /// From now on these are the targets.
    pub(super) fn select(&self, pool: TargetPool) {
        let pool = SharedPool::new(pool, &self.current());
        *self.pool.write() = Arc::new(pool);
    }
}

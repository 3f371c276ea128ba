//! The objects of one resource that cannot be decoded at present: logged once each, and counted.

use std::collections::HashMap;

use parking_lot::Mutex;
use tracing::{debug, info, warn};

use crate::{decode::Undecodable, metrics::WatchMetrics};

/// How many objects are named at WARN: an API server of another version may make all of them odd.
const NAMED: usize = 20;

/// The keys of the objects that cannot be decoded, each with the cause that was logged last.
pub(super) struct UndecodableObjects {
    resource: &'static str,
    metrics: WatchMetrics,
    causes: Mutex<HashMap<String, String>>,
}

impl UndecodableObjects {
    pub(super) fn new(resource: &'static str, metrics: WatchMetrics) -> Self {
        Self {
            resource,
            metrics,
            causes: Mutex::default(),
        }
    }

    /// An object could not be decoded.
    pub(super) fn add(&self, object: &Undecodable) {
        let resource = self.resource;
        self.metrics
            .not_decoded
            .get_or_create(&[("resource", resource)])
            .inc();
        let Undecodable { key, cause, .. } = object;
        let mut causes = self.causes.lock();
        if causes.get(key) == Some(cause) {
            return;
        }
        causes.insert(key.clone(), cause.clone());
        let count = causes.len();
        drop(causes);
        self.count(count);
        if count <= NAMED {
            warn!(
                resource,
                key,
                error = cause,
                "the object cannot be decoded, and its last state is kept"
            );
            return;
        }
        if count == NAMED + 1 {
            warn!(
                resource,
                "more than {NAMED} objects cannot be decoded; \
                 outrigger_store_undecodable_objects counts them, and -v=4 names them"
            );
        }
        debug!(resource, key, error = cause, "the object cannot be decoded");
    }

    /// An object was decoded.
    pub(super) fn decoded(&self, key: &str) {
        if self.forget(|other| other != key) {
            info!(
                resource = self.resource,
                key, "the object can be decoded again"
            );
        }
    }

    /// An object is gone.
    pub(super) fn deleted(&self, key: &str) {
        self.forget(|other| other != key);
    }

    /// A list showed the objects for which `listed` holds, and no others.
    pub(super) fn retain(&self, listed: impl Fn(&str) -> bool) {
        self.forget(listed);
    }

    /// Keeps the keys for which `keep` holds. Returns whether there was another.
    fn forget(&self, keep: impl Fn(&str) -> bool) -> bool {
        let mut causes = self.causes.lock();
        if causes.is_empty() {
            return false;
        }
        let before = causes.len();
        causes.retain(|key, _| keep(key));
        let after = causes.len();
        drop(causes);
        self.count(after);
        after < before
    }

    fn count(&self, count: usize) {
        let resource = self.resource;
        self.metrics
            .undecodable
            .get_or_create(&[("resource", resource)])
            .set(count as i64);
    }
}

//! The objects of one resource that cannot be decoded at present: logged by cause, and counted.

use std::collections::HashSet;

use outrigger_runtime::{log_repeated, telemetry::Repeats};
use parking_lot::Mutex;

use crate::{decode::Undecodable, metrics::WatchMetrics};

/// The keys of the objects that cannot be decoded.
pub(super) struct UndecodableObjects {
    resource: &'static str,
    metrics: WatchMetrics,
    repeats: Repeats,
    keys: Mutex<HashSet<String>>,
}

impl UndecodableObjects {
    pub(super) fn new(resource: &'static str, metrics: WatchMetrics) -> Self {
        Self {
            resource,
            metrics,
            repeats: Repeats::default(),
            keys: Mutex::default(),
        }
    }

    /// An object could not be decoded.
    pub(super) fn add(&self, object: &Undecodable) {
        let Undecodable { key, cause, .. } = object;
        let labels = [("resource", self.resource)];
        self.metrics.not_decoded.get_or_create(&labels).inc();
        log_repeated!(
            warn,
            self.repeats,
            cause,
            resource = self.resource,
            key,
            error = cause,
            "the object cannot be decoded, and its last state is kept"
        );
        let mut keys = self.keys.lock();
        keys.insert(key.clone());
        self.count(keys.len());
    }

    /// An object was decoded, or is gone.
    pub(super) fn remove(&self, key: &str) {
        self.retain(|other| other != key);
    }

    /// Forgets the objects for which `keep` does not hold.
    pub(super) fn retain(&self, keep: impl Fn(&str) -> bool) {
        let mut keys = self.keys.lock();
        if !keys.is_empty() {
            keys.retain(|key| keep(key));
            self.count(keys.len());
        }
    }

    fn count(&self, count: usize) {
        let labels = [("resource", self.resource)];
        let undecodable = self.metrics.undecodable.get_or_create(&labels);
        undecodable.set(count as i64);
    }
}

//! Annotations that the leader keeps on its Lease: written with the next renewal, so they cost no
//! request, and only while the lease is held.

use std::collections::BTreeMap;

use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(super) struct Annotations(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    seen: BTreeMap<String, String>,
    wanted: BTreeMap<String, Option<String>>,
}

impl Annotations {
    /// What is on the Lease, or will be soon.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        let inner = self.0.lock();
        let wanted = inner.wanted.get(key).cloned();
        wanted.unwrap_or_else(|| inner.seen.get(key).cloned())
    }

    pub(super) fn want(&self, key: &str, value: Option<String>) {
        self.0.lock().wanted.insert(key.to_owned(), value);
    }

    /// Takes in what is on the Lease.
    pub(super) fn saw(&self, annotations: &BTreeMap<String, String>) {
        let mut inner = self.0.lock();
        let Inner { seen, wanted } = &mut *inner;
        wanted.retain(|key, value| annotations.get(key) != value.as_ref());
        seen.clone_from(annotations);
    }

    /// Changes `annotations` to what is wanted.
    pub(super) fn apply(&self, annotations: &mut BTreeMap<String, String>) {
        for (key, value) in &self.0.lock().wanted {
            match value {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                None => annotations.remove(key),
            };
        }
    }

    /// A wish ends with the time in office.
    pub(super) fn forget(&self) {
        self.0.lock().wanted.clear();
    }
}

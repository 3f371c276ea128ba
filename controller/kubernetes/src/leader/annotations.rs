//! Annotations that the leader keeps on its Lease: written together with a renewal, which comes
//! early for them, and only while the lease is held.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Annotations {
    inner: Mutex<Inner>,
    /// Wakes tasks that wait until an annotation is written.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    actual: BTreeMap<String, String>,
    desired: BTreeMap<String, DesiredValue>,
    /// Keys that another client undoes, once they are reported.
    reported: BTreeSet<String>,
}

/// An annotation on the Lease once it is written, or the lease term has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrittenAnnotation {
    pub(super) value: Option<String>,
    /// True if the API server has answered a write with another value: an admission policy or webhook sets it.
    pub(super) is_undone: bool,
}

#[derive(Debug)]
struct DesiredValue {
    value: Option<String>,
    /// True if another value came before, which may be on its way to the Lease: only the answer to a later
    /// write of ours proves that it will not arrive.
    is_second: bool,
    /// True if a write has carried it already.
    is_sent: bool,
    /// True if such a write was answered, with another value. It is written again with each renewal.
    is_undone: bool,
}

impl Default for Annotations {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }
}

impl Annotations {
    /// The value on the Lease, or the one that is about to be written.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        let inner = self.inner.lock();
        match inner.desired.get(key) {
            Some(entry) => entry.value.clone(),
            None => inner.actual.get(key).cloned(),
        }
    }

    /// All that were last observed on the Lease.
    pub(super) fn actual(&self) -> BTreeMap<String, String> {
        self.inner.lock().actual.clone()
    }

    /// Desires `value`, or the removal of `key`. Returns whether that has to be written.
    pub(super) fn set(&self, key: &str, value: Option<String>) -> bool {
        let mut inner = self.inner.lock();
        let before = inner.desired.get(key);
        if before.is_none() && inner.actual.get(key) == value.as_ref() {
            return false;
        }
        let is_other = before.is_some_and(|before| before.value != value);
        let entry = DesiredValue {
            is_second: is_other || before.is_some_and(|before| before.is_second),
            is_sent: !is_other && before.is_some_and(|before| before.is_sent),
            is_undone: !is_other && before.is_some_and(|before| before.is_undone),
            value,
        };
        inner.desired.insert(key.to_owned(), entry);
        true
    }

    /// True if something is still to be written.
    pub(super) fn has_pending(&self) -> bool {
        !self.inner.lock().desired.is_empty()
    }

    /// True if a write of ours was answered without something that it carried: another client undid it.
    pub(super) fn is_undone(&self) -> bool {
        let inner = self.inner.lock();
        inner.desired.values().any(|entry| entry.is_undone)
    }

    /// How many annotations are undone, and those of them that were not reported yet.
    pub(super) fn undone(&self) -> (usize, Vec<String>) {
        let inner = &mut *self.inner.lock();
        let undone = inner.desired.iter().filter(|(_, entry)| entry.is_undone);
        let new = undone.filter(|(key, _)| !inner.reported.contains(*key));
        let new: Vec<_> = new.map(|(key, _)| key.clone()).collect();
        inner.reported.extend(new.iter().cloned());
        (inner.reported.len(), new)
    }

    /// Waits until nothing is to be written to `key`, or another client undoes it.
    pub(super) async fn written(&self, key: &str) -> WrittenAnnotation {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let inner = self.inner.lock();
                let entry = inner.desired.get(key);
                if entry.is_none_or(|entry| entry.is_undone) {
                    return WrittenAnnotation {
                        value: inner.actual.get(key).cloned(),
                        is_undone: entry.is_some(),
                    };
                }
            }
            // The sender lives as long as self: waiting cannot fail.
            let _ = changed.changed().await;
        }
    }

    /// Observes the annotations on the Lease, as a write of ours `wrote` it or as it was read or watched.
    pub(super) fn observed(&self, annotations: &BTreeMap<String, String>, wrote: bool) {
        let mut inner = self.inner.lock();
        let Inner {
            actual,
            desired,
            reported,
        } = &mut *inner;
        desired.retain(|key, entry| {
            let is_written = annotations.get(key) == entry.value.as_ref();
            entry.is_undone |= wrote && entry.is_sent && !is_written;
            if is_written && entry.value.is_some() {
                reported.remove(key);
            }
            !is_written || (entry.is_second && !wrote)
        });
        actual.clone_from(annotations);
        drop(inner);
        self.changed.send_replace(());
    }

    /// Changes `annotations`, which are about to be sent, to the desired values.
    pub(super) fn apply(&self, annotations: &mut BTreeMap<String, String>) {
        for (key, entry) in &mut self.inner.lock().desired {
            entry.is_sent = true;
            match &entry.value {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                None => annotations.remove(key),
            };
        }
    }

    /// Desired values end with the lease term.
    pub(super) fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.desired.clear();
        inner.reported.clear();
        drop(inner);
        self.changed.send_replace(());
    }
}

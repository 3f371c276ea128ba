//! The views of a store by key, and the memory of the large ones.

use std::{collections::HashMap, sync::Arc};

use outrigger_core::annotations::ReadAnnotations;

use super::View;

/// A view of at most this size is always kept: a usual Service takes 1 KiB.
const SMALL: usize = 4 << 10;
/// Memory of all views together that are not small. When it is used up, the store keeps only the identity of
/// another large view until there is room: whoever may create objects must not end this process.
const MOST_LARGE: usize = 64 << 20;

pub(super) struct Views<V> {
    by_key: HashMap<Arc<str>, Arc<V>>,
    read: ReadAnnotations,
    large: usize,
    shed: usize,
}

impl<V> Default for Views<V> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            read: ReadAnnotations::default(),
            large: 0,
            shed: 0,
        }
    }
}

impl<V: View> Views<V> {
    pub(super) const fn views(&self) -> &HashMap<Arc<str>, Arc<V>> {
        &self.by_key
    }

    /// Holds `view` without the annotations that are not read, and whole only if there is room. Returns it
    /// with the one that it replaces.
    pub(super) fn put(&mut self, mut view: V) -> (Arc<V>, Option<Arc<V>>) {
        view.keep(&self.read);
        let old = self.remove(view.key());
        let bytes = large(&view);
        if bytes > 0 && self.large + bytes > MOST_LARGE {
            view.shed();
        }
        let view = Arc::new(view);
        self.large += large(&*view);
        self.shed += usize::from(view.is_shed());
        self.by_key
            .insert(Arc::clone(view.key()), Arc::clone(&view));
        (view, old)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<V>> {
        let old = self.by_key.remove(key)?;
        self.large -= large(&*old);
        self.shed -= usize::from(old.is_shed());
        Some(old)
    }

    /// Forgets the views for whose keys `keep` does not hold, and returns them.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) -> Vec<Arc<V>> {
        let keys = self.by_key.keys().filter(|key| !keep(key));
        let keys: Vec<_> = keys.cloned().collect();
        let gone = keys.iter().filter_map(|key| self.remove(key)).collect();
        self.by_key.shrink_to_fit();
        gone
    }

    /// Keeps the annotations in `read` alone from now on. Returns whether only a list shows all of them.
    pub(super) fn keep_annotations(&mut self, read: &ReadAnnotations) -> bool {
        if self.read == *read {
            return false;
        }
        let is_covered = self.read.covers(read);
        self.read = read.clone();
        for view in self.by_key.values().cloned().collect::<Vec<_>>() {
            self.put((*view).clone());
        }
        !is_covered || self.has_room_for_shed()
    }

    /// How many views there was no room for.
    pub(super) const fn shed(&self) -> usize {
        self.shed
    }

    /// True if a list would show more of views that there was no room for.
    pub(super) const fn has_room_for_shed(&self) -> bool {
        self.shed > 0 && self.large < MOST_LARGE / 2
    }
}

/// Memory of a view that is not small.
fn large<V: View>(view: &V) -> usize {
    Some(view.bytes())
        .filter(|bytes| *bytes > SMALL)
        .unwrap_or_default()
}

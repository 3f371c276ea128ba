//! The views of a store by key, and the memory that they may take.

use std::{collections::HashMap, sync::Arc};

use outrigger_core::annotations::ReadAnnotations;

use super::View;

/// Memory of one view; of a larger one its identity alone is kept. A usual Service takes 1 KiB.
const LARGEST: usize = 64 << 10;

pub(super) struct Views<V> {
    by_key: HashMap<Arc<str>, Arc<V>>,
    /// Keys of views that show a write of ours that was not read yet, and the subresource that alone may differ from them;
    /// none: all of it may.
    presumed: HashMap<Arc<str>, Option<&'static str>>,
    read: ReadAnnotations,
    /// Memory of the views with a [`View::most`].
    bounded: usize,
    /// [`View::most`] of the last view that was not kept since the list began.
    turned_away: Option<usize>,
}

impl<V> Default for Views<V> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            presumed: HashMap::new(),
            read: ReadAnnotations::default(),
            bounded: 0,
            turned_away: None,
        }
    }
}

impl<V: View> Views<V> {
    pub(super) const fn views(&self) -> &HashMap<Arc<str>, Arc<V>> {
        &self.by_key
    }

    /// Returns true if `view` is needed, and there is room for it in place of the one held.
    pub(super) fn admits(&mut self, view: &V) -> bool {
        let Some(most) = view.most().filter(|_| view.is_needed()) else {
            return view.is_needed();
        };
        let held = self.by_key.get(&**view.key());
        let others = self.bounded - held.map_or(0, |held| bounded(&**held));
        let is_admitted = others + bounded(view) <= most;
        if !is_admitted {
            self.turned_away = Some(most);
        }
        is_admitted
    }

    /// A list begins, which shows again what was not kept.
    pub(super) const fn begin_list(&mut self) {
        self.turned_away = None;
    }

    /// Holds `view` without the annotations that are not read, and whole only if it is not too large. Returns it
    /// with the one that it replaces.
    pub(super) fn put(&mut self, mut view: V) -> (Arc<V>, Option<Arc<V>>) {
        view.keep(&self.read);
        let old = self.take(view.key());
        if view.bytes() > LARGEST {
            view.shed();
        }
        let view = Arc::new(view);
        self.bounded += bounded(&*view);
        self.by_key
            .insert(Arc::clone(view.key()), Arc::clone(&view));
        (view, old)
    }

    /// Notes that the API server showed the object `key` as its view has it.
    pub(super) fn was_read(&mut self, key: &str) {
        self.presumed.remove(key);
    }

    /// Notes that the object `key` may differ from its view, in what writes to `subresource` change or, without one, in
    /// anything.
    pub(super) fn is_presumed(&mut self, key: &Arc<str>, subresource: Option<&'static str>) {
        let noted = self.presumed.entry(Arc::clone(key)).or_insert(subresource);
        if *noted != subresource {
            *noted = None;
        }
    }

    /// Returns true if the API server has, or had, the object under the version of `view` with all that is in it of
    /// `subresource`.
    pub(super) fn is_exact(&self, view: &V, subresource: &'static str) -> bool {
        let held = self.by_key.get(view.key());
        let is_read = match self.presumed.get(view.key()) {
            None => true,
            Some(noted) => noted.is_some_and(|other| other != subresource),
        };
        is_read && held.is_some_and(|held| **held == *view) && !view.resource_version().is_empty()
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<V>> {
        self.presumed.remove(key);
        self.take(key)
    }

    fn take(&mut self, key: &str) -> Option<Arc<V>> {
        let old = self.by_key.remove(key)?;
        self.bounded -= bounded(&*old);
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
        !is_covered || self.by_key.values().any(|view| view.is_shed())
    }

    /// Returns true if there was no room for a view.
    pub(super) const fn lacks_room(&self) -> bool {
        self.turned_away.is_some()
    }

    /// True if a list would show views that there was no room for.
    pub(super) fn has_room(&self) -> bool {
        self.turned_away.is_some_and(|most| self.bounded < most / 2)
    }
}

fn bounded<V: View>(view: &V) -> usize {
    view.most().map_or(0, |_| view.bytes())
}

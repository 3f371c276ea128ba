//! The views of a store by key, and how many and how large they may be.
//!
//! [`super::Store`] holds it under one lock. It forgets what no loop reads: other annotations, most of an object that is
//! too large, and views for which there is no room.

use std::{collections::HashMap, sync::Arc};

use outrigger_core::annotations::ReadAnnotations;

use super::View;

/// Views of one [`View::requester`]. No quota limits requests for certificates, and a kubelet has one or two.
const MOST_OF_ONE: usize = 16;

pub(super) struct Views<V> {
    by_key: HashMap<Arc<str>, Arc<V>>,
    /// Keys of views that show a write of ours that was not read yet, and the subresource that alone may differ from them;
    /// none: all of it may.
    presumed: HashMap<Arc<str>, Option<&'static str>>,
    read: ReadAnnotations,
    /// How many there are of each [`View::requester`].
    of_one: HashMap<Box<str>, usize>,
    /// True if a view was not kept since the list began.
    turned_away: bool,
}

impl<V> Default for Views<V> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            presumed: HashMap::new(),
            read: ReadAnnotations::default(),
            of_one: HashMap::new(),
            turned_away: false,
        }
    }
}

impl<V: View> Views<V> {
    pub(super) const fn views(&self) -> &HashMap<Arc<str>, Arc<V>> {
        &self.by_key
    }

    /// Returns true if `view` is needed, and there is room for it in place of the one held.
    pub(super) fn admits(&mut self, view: &V) -> bool {
        let Some(requester) = view.requester().filter(|_| view.is_needed()) else {
            return view.is_needed();
        };
        let held = self.by_key.get(&**view.key());
        let is_held = held.is_some_and(|held| held.requester() == Some(requester));
        let own = self.of_one.get(requester).copied().unwrap_or_default();
        let is_admitted = is_held || own < MOST_OF_ONE;
        self.turned_away |= !is_admitted;
        is_admitted
    }

    /// A list begins, which shows again what was not kept.
    pub(super) const fn begin_list(&mut self) {
        self.turned_away = false;
    }

    /// Holds `view` as far as it is kept. Returns it with the one that it replaces.
    pub(super) fn put(&mut self, mut view: V) -> (Arc<V>, Option<Arc<V>>) {
        view.keep(&self.read);
        let old = self.take(view.key());
        let view = Arc::new(view);
        if let Some(requester) = view.requester() {
            *self.of_one.entry(requester.into()).or_default() += 1;
        }
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
        if let Some(requester) = old.requester()
            && let Some(own) = self.of_one.get_mut(requester)
        {
            *own -= 1;
            if *own == 0 {
                self.of_one.remove(requester);
            }
        }
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
        !is_covered || self.by_key.values().any(|view| view.is_too_large())
    }

    /// Returns true if there was no room for a view.
    pub(super) const fn lacks_room(&self) -> bool {
        self.turned_away
    }
}

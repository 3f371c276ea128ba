//! The views of all objects of one kind, kept in sync by a watch, readable by every loop.
//!
//! ```text
//!  watch ─► begin_list, apply …, finish_list ─► apply, delete … ─┐
//!  writer ─► written, refresh ───────────────────────────────────┼─► views ─► get, all
//!  loops ──► learn (what the cloud said) ────────────────────────┘     └──► event handlers, in order
//! ```
//!
//! The binary makes a store for each kind, subscribes the loops, and only then starts the [watch](crate::watch) that fills
//! it. The handlers see each change before the next one is applied, and put keys into queues; they must not wait. A reader
//! never waits for a request: the store may be a moment behind the API server, but not behind a write of this process.
//!
//! ```
//! use outrigger_core::node::NodeView;
//! use outrigger_kube::store::{Change, Origin, Store};
//! use serde_json::json;
//! use std::sync::mpsc;
//!
//! let store = Store::<NodeView>::default();
//! let (send, changes) = mpsc::channel();
//! store.subscribe(move |change: &Change<'_, NodeView>, _origin| {
//!     let (Change::Added(node) | Change::Updated(_, node) | Change::Deleted(node)) = change;
//!     let _ = send.send(node.resource_version.to_string());
//! });
//! let node = |version: &str| {
//!     let metadata = json!({"name": "node-1", "uid": "uid-1", "resourceVersion": version});
//!     serde_json::from_value::<NodeView>(json!({"metadata": metadata}))
//! };
//!
//! // The watch lists, and follows the changes.
//! store.begin_list();
//! store.apply(node("7")?, Origin::List);
//! store.finish_list(|name| name == "node-1");
//! assert!(store.is_synced());
//! store.apply(node("9")?, Origin::Watch);
//! // An older version than that of the view is dropped.
//! store.apply(node("8")?, Origin::Watch);
//!
//! assert_eq!(changes.try_iter().collect::<Vec<_>>(), ["7", "9"]);
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use outrigger_core::annotations::ReadAnnotations;

pub use self::view::{Resource, View};
use self::views::Views;

mod view;
mod views;

/// The cause of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was found in a full list, or is looked at again: there may be thousands, none of them
    /// urgent.
    List,
    /// It has just happened.
    Watch,
    /// We have just written it ourselves ([`Store::written`]). The loop that did knows what follows;
    /// another may have waited for it.
    Write,
}

/// A change of one object in a store.
#[derive(Debug)]
pub enum Change<'a, V> {
    /// It was not in the store before.
    Added(&'a Arc<V>),
    /// It was there and is another version now.
    Updated(&'a Arc<V>, &'a Arc<V>),
    /// It is gone; the last view of it.
    Deleted(&'a Arc<V>),
}

type Handler<V> = Box<dyn Fn(&Change<'_, V>, Origin) + Send + Sync>;

/// Views by key. Reading never waits for more than another reader's or writer's map access.
pub struct Store<V> {
    views: RwLock<Views<V>>,
    /// While a full list is under way: keys of objects that were written or read beside it, which it may show as
    /// they were before.
    since_list: Mutex<Option<HashSet<Arc<str>>>>,
    handlers: RwLock<Vec<Handler<V>>>,
    /// Held from a change of the views until all handlers have seen it, before the lock of the views: a watch and the writes
    /// of loops change them on several threads.
    order: Mutex<()>,
    /// True if another client may not change the fields that the view protects.
    protects: AtomicBool,
    synced: watch::Sender<bool>,
    /// Only a list shows what is to be kept now.
    outdated: Notify,
}

impl<V: View> Default for Store<V> {
    fn default() -> Self {
        Self {
            views: RwLock::default(),
            since_list: Mutex::default(),
            handlers: RwLock::default(),
            order: Mutex::default(),
            protects: AtomicBool::default(),
            synced: watch::Sender::new(false),
            outdated: Notify::new(),
        }
    }
}

impl<V: View> Store<V> {
    /// Calls `handler` on every change from now on, in order, before the next change is applied. To be
    /// called before the store is filled. The handler must neither wait nor subscribe nor change the store: it puts keys
    /// into queues.
    pub fn subscribe(&self, handler: impl Fn(&Change<'_, V>, Origin) + Send + Sync + 'static) {
        self.handlers.write().push(Box::new(handler));
    }

    /// The view of one object.
    pub fn get(&self, key: &str) -> Option<Arc<V>> {
        self.views.read().views().get(key).cloned()
    }

    /// All views, in no order.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.views.read().views().values().cloned().collect()
    }

    /// The object of `view` as it is held now; none if it is gone, or another one has its key.
    pub fn newest(&self, view: &V) -> Option<Arc<V>> {
        self.get(view.key()).filter(|held| held.uid() == view.uid())
    }

    /// Calls `look` on every view, in no order. It must be quick and not touch the store.
    pub fn for_each(&self, mut look: impl FnMut(&V)) {
        let views = self.views.read();
        views.views().values().for_each(|view| look(view));
    }

    /// Returns true if `holds` says yes of a view, and looks at no other then. It must be quick and not touch the store.
    pub fn any(&self, mut holds: impl FnMut(&V) -> bool) -> bool {
        let views = self.views.read();
        views.views().values().any(|view| holds(view))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.views.read().views().len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.views.read().views().is_empty()
    }

    /// True if the first full list is in the store.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Returns when the first full list is in the store.
    pub async fn synced(&self) {
        // The sender lives as long as self: waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Stores a view, unless it is not needed, or there is no room for it. A version of a watch that is older than the
    /// one held is dropped: after one of our own writes ([`Self::written`]) the watch may still deliver what was before
    /// it. A full list shows the state after all
    /// that was stored before [it began](Self::begin_list), whatever its versions: after a restore of etcd they
    /// are lower.
    pub fn apply(&self, view: V, origin: Origin) {
        let order = self.order.lock();
        let (view, old) = {
            let mut views = self.views.write();
            let held = views.views().get(&**view.key()).cloned();
            if held.as_ref().is_some_and(|held| {
                is_older(view.resource_version(), held.resource_version())
                    && !self.is_superseded(view.key(), origin)
            }) {
                return;
            }
            if !views.admits(&view) {
                drop((views, order));
                return self.delete(view.key(), origin);
            }
            let view = self.protected(held.as_ref(), view, origin);
            views.was_read(view.key());
            views.put(view)
        };
        match &old {
            Some(old) if old.uid() != view.uid() => {
                // Deleted and made again between two observations.
                self.notify(&Change::Deleted(old), origin);
                self.notify(&Change::Added(&view), origin);
            }
            // Equal to our write plus the changes of others under it: handled below.
            Some(old) if *old == view => {}
            Some(old) => self.notify(&Change::Updated(old, &view), origin),
            None => self.notify(&Change::Added(&view), origin),
        }
    }

    /// Protects fields from now on from changes by other clients ([`View::protected`]), or does so no more.
    pub fn protect(&self, protects: bool) {
        self.protects.store(protects, Ordering::Release);
    }

    /// An object that only a list shows may have been there all the time.
    fn protected(&self, held: Option<&Arc<V>>, view: V, origin: Origin) -> V {
        let is_known = held.is_some_and(|held| held.uid() == view.uid());
        if !self.protects.load(Ordering::Acquire) || (!is_known && origin == Origin::List) {
            return view;
        }
        view.protected(held.map(|held| &**held))
    }

    /// Puts the view that `make` makes of the one of `key` with `uid`, if it makes one, and calls the handlers if it is
    /// another. Returns the view held then, or none if the object was deleted or is another.
    fn replace(
        &self,
        key: &str,
        uid: &str,
        origin: Origin,
        make: impl FnOnce(&mut Views<V>, &Arc<V>) -> Option<V>,
    ) -> Option<Arc<V>> {
        let _order = self.order.lock();
        let (view, held) = {
            let mut views = self.views.write();
            let held = views.views().get(key).filter(|held| held.uid() == uid)?;
            let held = Arc::clone(held);
            let Some(view) = make(&mut views, &held) else {
                return Some(held);
            };
            (views.put(view).0, held)
        };
        if held != view {
            self.notify(&Change::Updated(&held, &view), origin);
        }
        Some(view)
    }

    /// Stores what was learnt about the object `key` with `uid` elsewhere than at the API server, and calls the handlers.
    pub fn learn(&self, key: &str, uid: &str, apply: impl FnOnce(&V) -> V) {
        self.replace(key, uid, Origin::Write, |_, held| {
            Some(apply(held)).filter(|view| *view != **held)
        });
    }

    /// Stores our own write to the object `key` with `uid`, so that no loop decides again on what was before, and calls the
    /// handlers: the watch, which brings it later, does not. `apply` makes the view of `version` of the one held; no event
    /// follows where the watch was faster. Returns the view held then, or none if the object was deleted or is another.
    /// `presumed` is the subresource that alone may differ from the view until the watch brings it, as by an admission webhook;
    /// none: the write may have been over changes of others.
    ///
    /// A write that ends an object, as the last finalizer's removal does, is answered with the
    /// version before it: an equal version proves nothing about the view in the store.
    pub fn written(
        &self,
        key: &str,
        uid: &str,
        version: &str,
        presumed: Option<&'static str>,
        apply: impl FnOnce(&V) -> V,
    ) -> Option<Arc<V>> {
        self.replace(key, uid, Origin::Write, |views, held| {
            if is_older(version, held.resource_version()) {
                return None;
            }
            let view = Some(apply(held)).filter(|view| *view != **held)?;
            self.outdate_list(view.key());
            views.is_presumed(view.key(), presumed);
            Some(view)
        })
    }

    /// Returns true if `view` is the one held, and the API server has all that writes to `subresource` change as the view shows
    /// it, under that version.
    pub(super) fn is_exact(&self, view: &V, subresource: &'static str) -> bool {
        self.views.read().is_exact(view, subresource)
    }

    /// Stores an object that was read beside the watch, and calls the handlers. Does nothing if the object was
    /// deleted, is another or is newer: a late answer makes nothing come back.
    pub fn refresh(&self, view: &Arc<V>) {
        self.replace(view.key(), view.uid(), Origin::Watch, |views, held| {
            if is_older(view.resource_version(), held.resource_version()) {
                return None;
            }
            self.outdate_list(view.key());
            views.was_read(view.key());
            Some(self.protected(Some(held), (**view).clone(), Origin::Watch))
        });
    }

    /// Keeps the annotations in `read` alone from now on. No handler is called: the others were read by none.
    pub fn keep_annotations(&self, read: &ReadAnnotations) {
        let has_begun = self.is_synced() || self.since_list.lock().is_some();
        if self.views.write().keep_annotations(read) && has_begun {
            self.outdated.notify_one();
        }
    }

    /// Returns once only a list shows what is to be kept.
    pub(super) async fn outdated(&self) {
        self.outdated.notified().await;
    }

    /// Returns true if there was no room for an object.
    pub(super) fn lacks_room(&self) -> bool {
        self.views.read().lacks_room()
    }

    /// Calls the handlers for every object, as if it had changed.
    pub fn resync(&self) {
        for view in self.all() {
            let _order = self.order.lock();
            if let Some(view) = self.newest(&view) {
                self.notify(&Change::Updated(&view, &view), Origin::List);
            }
        }
    }

    /// Resyncs each time a period ends that is drawn once between `min_period` and twice that
    /// (`--min-resync-period`), until `stop`, as client-go's informers: what a lost wake-up or a bug left
    /// undone does not stay so until the next restart. Costs no request. Zero: never.
    pub async fn keep_resyncing(self: Arc<Self>, min_period: Duration, stop: CancellationToken) {
        if min_period.is_zero() {
            return stop.cancelled().await;
        }
        let period = min_period.mul_f64(1.0 + fastrand::f64());
        stop.run_until_cancelled(async {
            loop {
                tokio::time::sleep(period).await;
                debug!(objects = self.len(), "looking at all objects again");
                self.resync();
            }
        })
        .await;
    }

    /// Forgets an object that was deleted.
    pub fn delete(&self, key: &str, origin: Origin) {
        let _order = self.order.lock();
        let gone = self.views.write().remove(key);
        if let Some(gone) = gone {
            self.notify(&Change::Deleted(&gone), origin);
        }
    }

    /// Forgets the view of `key` unless it is of the object with `uid`: another object has its place
    /// now, of which there is no view.
    pub fn forget_unless(&self, key: &str, uid: &str, origin: Origin) {
        if self.get(key).is_some_and(|held| held.uid() != uid) {
            self.delete(key, origin);
        }
    }

    /// Begins a full list, whose first request follows. It is stored by [`Self::apply`] from [`Origin::List`].
    pub fn begin_list(&self) {
        *self.since_list.lock() = Some(HashSet::new());
        self.views.write().begin_list();
    }

    fn outdate_list(&self, key: &Arc<str>) {
        if let Some(keys) = &mut *self.since_list.lock() {
            keys.insert(Arc::clone(key));
        }
    }

    /// True if what is held was stored before the list that `origin` is of.
    fn is_superseded(&self, key: &str, origin: Origin) -> bool {
        let since = self.since_list.lock();
        origin == Origin::List && since.as_ref().is_some_and(|since| !since.contains(key))
    }

    /// Ends a full list that showed exactly the objects for which `listed` holds: forgets the
    /// others, whose deletion the watch missed.
    pub fn finish_list(&self, listed: impl Fn(&str) -> bool) {
        let _order = self.order.lock();
        *self.since_list.lock() = None;
        let gone = self.views.write().retain(listed);
        for view in &gone {
            self.notify(&Change::Deleted(view), Origin::List);
        }
        self.synced.send_replace(true);
    }

    fn notify(&self, change: &Change<'_, V>, origin: Origin) {
        for handler in &*self.handlers.read_recursive() {
            handler(change, origin);
        }
    }
}

/// Versions are etcd revisions, which Kubernetes lets clients compare as numbers (KEP-5504).
/// Anything else is taken as newer: the API server's word counts.
pub(crate) fn is_older(new: &str, held: &str) -> bool {
    match (new.parse::<u64>(), held.parse::<u64>()) {
        (Ok(new), Ok(held)) => new < held,
        _ => false,
    }
}

#[cfg(test)]
mod tests;

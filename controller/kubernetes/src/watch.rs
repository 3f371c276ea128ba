//! Keeps a store in sync with the API server: a watch that begins with all objects, then shows their changes, and begins
//! again when it is too old. Where the API server does not begin a watch so, a list in pages comes before it. One task
//! and one back-off per resource, so that a sick watch delays no other.
//!
//! RBAC: `list` and `watch` on the resource.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use jiff::Timestamp;
use outrigger_core::error_class::ErrorClass;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use self::health::{Health, Resync, Sight};
pub(crate) use self::revision::EtcdRevision;
use self::{pause::Pause, undecodable::UndecodableObjects};
use super::{
    api::{Api, Begin},
    decode::{Item, ObjectEvent, Undecodable},
    error::ApiError,
    metrics::WatchMetrics,
    store::{Origin, Resource, Store, View},
};

mod health;
mod pause;
mod revision;
mod undecodable;

/// A watch that is silent for so long is followed by a list: bookmarks come about once a minute, and the
/// connection answers pings. The API server sends no bookmarks and nothing changes, or a proxy holds the events
/// back: only a list shows which.
const SILENCE: Duration = Duration::from_secs(150);

/// A stream of all objects that stands still for so long is given up for pages: the API server, or a proxy before it,
/// holds it back.
const STALL: Duration = Duration::from_secs(30);

/// A stream that has not shown all objects after so long is given up for pages too: the API server may show changes without
/// an end, and never say that they are all.
const LONGEST_STREAM: Duration = Duration::from_mins(2);

/// A watch that lived so long was healthy: the next one starts immediately, with the back-off reset.
const HEALTHY: Duration = Duration::from_secs(20);

/// A `Retry-After` counts up to here. kube-apiserver asks for at most 30 s, while its watch cache is not filled.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Why a watch has to be started again.
#[derive(Debug)]
enum End {
    /// The API server ended it, as it does after some minutes.
    Clean,
    /// Nothing came for [`SILENCE`] on an open watch.
    Silent,
    /// The version is too old, or later ones are older: only a full list helps.
    Expired,
    /// The objects did not come in a stream, for this reason: pages may help.
    NotStreamed(String),
    /// More is to be kept of objects than was: only a full list shows it.
    Outdated,
    /// Anything else.
    Failed(ApiError),
}

impl End {
    fn of(error: ApiError) -> Self {
        if error.is_expired() {
            Self::Expired
        } else {
            Self::Failed(error)
        }
    }

    const fn label(&self) -> &'static str {
        match self {
            Self::Clean => "ended",
            Self::Silent => "silent",
            Self::Expired => "expired",
            Self::NotStreamed(_) => "not-streamed",
            Self::Outdated => "outdated",
            Self::Failed(_) => "error",
        }
    }

    /// The end of a watch before it had shown all objects. A stream that the API server does not take, holds back or
    /// breaks off says nothing of a list in pages. Where it is away, has no time or refuses us, a list would meet the same.
    fn before_all_objects(self, is_open: bool) -> Self {
        match self {
            Self::Clean => Self::NotStreamed(
                "the API server ended the watch before all objects had come".to_owned(),
            ),
            Self::Silent => Self::NotStreamed(format!(
                "nothing came for {} s, or no end in {} s",
                STALL.as_secs(),
                LONGEST_STREAM.as_secs()
            )),
            Self::Expired => Self::NotStreamed("the resourceVersion is too old".to_owned()),
            Self::Failed(error) if is_open || wants_pages(&error) => {
                Self::NotStreamed(error.to_string())
            }
            end => end,
        }
    }

    /// When the API server wants to be asked again.
    fn retry_after(&self) -> Duration {
        match self {
            Self::Failed(ApiError::Status { retry_after, .. }) => {
                retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER)
            }
            _ => Duration::ZERO,
        }
    }
}

/// True if an API server that answers the request for a stream so may answer that for a page: it knows no streams
/// (400, 422), its watch cache does not catch up with etcd (504), or a proxy waits for the end of the answer.
fn wants_pages(error: &ApiError) -> bool {
    error.class() == ErrorClass::Invalid
        || error.code() == Some(504)
        || matches!(error, ApiError::Timeout(_))
}

/// How a watch went.
#[derive(Debug, Default)]
struct WatchRun {
    opened: Option<Instant>,
    /// True if anything came.
    has_received: bool,
}

/// A full list that is under way.
#[derive(Debug)]
struct Listing {
    /// The objects that came.
    keys: HashSet<Arc<str>>,
    /// False once an object came without a readable key, which may be any of those that did not come.
    is_complete: bool,
}

/// Keeps `store` in sync until `stop`, and reports to `health`. Never gives up: what can fail
/// here heals on the other side. An object that cannot be decoded keeps its last view.
pub async fn run<V: View>(
    api: Api,
    store: Arc<Store<V>>,
    health: Health,
    metrics: WatchMetrics,
    stop: CancellationToken,
) {
    health.began();
    let reflector = Reflector {
        api,
        store,
        health,
        undecodable: UndecodableObjects::new(V::RESOURCE.name, metrics.clone()),
        metrics,
        lacks_room: AtomicBool::default(),
    };
    stop.run_until_cancelled(reflector.keep_in_sync()).await;
}

struct Reflector<V> {
    api: Api,
    store: Arc<Store<V>>,
    health: Health,
    undecodable: UndecodableObjects,
    metrics: WatchMetrics,
    /// True if there is no room for all objects.
    lacks_room: AtomicBool,
}

impl<V: View> Reflector<V> {
    async fn keep_in_sync(&self) {
        let mut pause = Pause::default();
        let mut revision = self.health.revision();
        // The version to watch from; none: all objects first.
        let mut version: Option<String> = None;
        // The next full list comes in pages.
        let mut in_pages = false;
        // The last watch ended silent, and nothing was received since.
        let mut is_silent = false;
        loop {
            let mut run = WatchRun::default();
            let confirmed = if self.store.is_synced() {
                self.health.same_cluster().await
            } else {
                Ok(())
            };
            let end = if let Err(error) = confirmed {
                End::Failed(error)
            } else if version.is_none() && in_pages {
                match self.list().await {
                    Ok(listed) => {
                        revision.answered(&listed);
                        version = Some(listed);
                        in_pages = false;
                        continue;
                    }
                    Err(error) => End::of(error),
                }
            } else {
                let watched = self.watch(&mut version, &mut revision, &mut pause, &mut run);
                let mut end = watched.await;
                is_silent &= !run.has_received;
                if version.is_none() {
                    end = end.before_all_objects(run.opened.is_some());
                }
                if matches!(end, End::Expired | End::Outdated | End::Silent) {
                    version = None;
                }
                // A watch that shows nothing would not show the objects either.
                in_pages = matches!(end, End::Silent | End::NotStreamed(_));
                end
            };
            // A list that fails after a long time, or a watch that is not opened, shows no health.
            let healthy = run.opened.is_some_and(|opened| opened.elapsed() >= HEALTHY);
            if healthy {
                pause = Pause::default();
            }
            self.ended(&end, &mut pause, is_silent);
            is_silent |= matches!(end, End::Silent);
            if healthy && matches!(end, End::Clean) || matches!(end, End::NotStreamed(_)) {
                continue;
            }
            let pause = pause.next(fastrand::f64()).max(end.retry_after());
            tokio::time::sleep(pause).await;
        }
    }

    fn ended(&self, end: &End, pause: &mut Pause, is_silent: bool) {
        let resource = V::RESOURCE.name;
        let labels = [("resource", resource), ("reason", end.label())];
        self.metrics.restarts.get_or_create(&labels).inc();
        match end {
            End::Failed(error) => self.failed(error, pause),
            End::Outdated => info!(resource, "more of the objects is to be kept; listing again"),
            End::Expired => info!(resource, "the watch is outdated; listing again"),
            End::NotStreamed(reason) => info!(
                resource,
                reason, "the API server did not send all objects in a stream; listing in pages"
            ),
            End::Silent if is_silent => {
                debug!(resource, "the watch is still silent; listing again");
            }
            End::Silent => warn!(
                resource,
                "the API server, or a proxy before it, accepts the watch and sends neither events nor \
                 bookmarks; until it does, a list follows each watch that was silent for {} s",
                SILENCE.as_secs()
            ),
            End::Clean => debug!(resource, "the watch ended; starting it again"),
        }
    }

    fn failed(&self, error: &ApiError, pause: &mut Pause) {
        let resource = V::RESOURCE.name;
        self.health.failed(error);
        let failures = pause.failures + 1;
        if pause.is_due() {
            warn!(
                resource,
                failures,
                %error,
                "cannot watch; trying again with back-off"
            );
        } else {
            debug!(resource, failures, %error, "still cannot watch");
        }
    }

    /// A full list in pages into the store, and the version that it shows.
    async fn list(&self) -> Result<String, ApiError> {
        let mut listing = self.begin_list();
        let each = |item| self.add(&mut listing, item);
        let Resource { path, selector, .. } = V::RESOURCE;
        let version = self.api.list::<V>(path, selector, each).await;
        self.count();
        let version = version?;
        self.finish_list(&listing);
        Ok(version)
    }

    fn begin_list(&self) -> Listing {
        self.store.begin_list();
        Listing {
            keys: HashSet::new(),
            is_complete: true,
        }
    }

    /// Stores an object of a full list.
    fn add(&self, listing: &mut Listing, item: Item<V>) {
        let is_decoded = matches!(item, Item::Decoded(_));
        let key = self.store_object(item, Origin::List);
        listing.is_complete &= !key.is_empty();
        // An object that the store does not keep takes no memory here either.
        if !is_decoded || self.store.get(&key).is_some() {
            listing.keys.insert(key);
        }
    }

    /// All objects have come: forgets the others.
    fn finish_list(&self, listing: &Listing) {
        let Listing { keys, is_complete } = listing;
        let labels = [("resource", V::RESOURCE.name)];
        self.metrics.lists.get_or_create(&labels).inc();
        self.store
            .finish_list(|key| !is_complete || keys.contains(key));
        self.undecodable.retain(|key| keys.contains(key));
        self.health.listed();
        self.count();
        self.shown();
        info!(resource = V::RESOURCE.name, objects = keys.len(), "listed");
    }

    /// Stores an object. Returns its key, which is empty if it is not known.
    fn store_object(&self, item: Item<V>, origin: Origin) -> Arc<str> {
        match item {
            Item::Decoded(view) => {
                let key = Arc::clone(view.key());
                self.undecodable.decoded(&key);
                self.store.apply(view, origin);
                key
            }
            Item::Undecodable(object) => {
                self.undecodable.add(&object);
                if !object.uid.is_empty() {
                    self.store.forget_unless(&object.key, &object.uid, origin);
                }
                object.key.into()
            }
        }
    }

    /// Follows changes after `version`, which moves along, until the watch ends. Without a version, all objects come first;
    /// it is there once they have come.
    async fn watch(
        &self,
        version: &mut Option<String>,
        revision: &mut EtcdRevision,
        pause: &mut Pause,
        run: &mut WatchRun,
    ) -> End {
        let Resource {
            name: resource,
            path,
            selector,
        } = V::RESOURCE;
        let mut listing = version.is_none().then(|| self.begin_list());
        let (begin, limit) = match version {
            Some(version) => (Begin::After(version), SILENCE),
            None => (Begin::Objects, STALL),
        };
        let mut events = match self.api.watch::<V>(path, selector, begin, limit).await {
            Ok(events) => std::pin::pin!(events),
            Err(error) => return End::of(error),
        };
        self.health.opened();
        let opened = Instant::now();
        run.opened = Some(opened);
        if pause.failures > 0 {
            info!(resource, "watching again");
        }
        loop {
            let end = match listing {
                Some(_) => (Instant::now() + STALL).min(opened + LONGEST_STREAM),
                None => Instant::now() + SILENCE,
            };
            let event = tokio::select! {
                event = timeout_at(end, events.next()) => event,
                () = self.store.outdated() => return End::Outdated,
                () = revision.doubted(), if listing.is_none() => return End::Expired,
            };
            let event = match event {
                Err(_) => return End::Silent,
                // Once in some minutes, which is often enough.
                Ok(None) if listing.is_none() && self.store.has_room() => return End::Outdated,
                Ok(None) => return End::Clean,
                Ok(Some(Err(error))) => return End::of(error),
                Ok(Some(Ok(event))) => event,
            };
            run.has_received = true;
            if let Some(all) = &mut listing {
                match event {
                    ObjectEvent::Applied(item) => self.add(all, item),
                    ObjectEvent::Deleted(item) => {
                        all.keys.remove(self.delete(&item));
                    }
                    ObjectEvent::InitialEnd(at) => {
                        self.finish_list(all);
                        revision.answered(&at);
                        *version = Some(at);
                        listing = None;
                    }
                    // It would come after the objects, so that this API server, or one behind it, knows no such stream.
                    ObjectEvent::Bookmark(_) => {
                        let reason = "a bookmark came before that which ends the objects";
                        return End::Failed(ApiError::Decode(reason.to_owned()));
                    }
                }
                continue;
            }
            let labels = [("resource", resource)];
            self.metrics.events.get_or_create(&labels).inc();
            let at: &str = match &event {
                ObjectEvent::Applied(item) | ObjectEvent::Deleted(item) => version_of(item),
                ObjectEvent::Bookmark(at) | ObjectEvent::InitialEnd(at) => at,
            };
            if !at.is_empty() {
                if !revision.shown(at) {
                    return End::Expired;
                }
                *version = Some(at.to_owned());
            }
            match event {
                ObjectEvent::Applied(item) => {
                    self.store_object(item, Origin::Watch);
                }
                ObjectEvent::Deleted(item) => {
                    self.delete(&item);
                }
                ObjectEvent::Bookmark(_) | ObjectEvent::InitialEnd(_) => {}
            }
            self.count();
            self.shown();
        }
    }

    /// Forgets an object that was deleted, and returns its key.
    fn delete<'a>(&self, item: &'a Item<V>) -> &'a str {
        let key = match item {
            Item::Decoded(view) => &**view.key(),
            Item::Undecodable(object) => &object.key,
        };
        self.undecodable.deleted(key);
        self.store.delete(key, Origin::Watch);
        key
    }

    /// The store is as the API server has it at this moment, or was a moment ago.
    fn shown(&self) {
        let labels = [("resource", V::RESOURCE.name)];
        let shown = self.metrics.shown.get_or_create(&labels);
        shown.set(Timestamp::now().as_second());
    }

    fn count(&self) {
        let resource = V::RESOURCE.name;
        let objects = self
            .metrics
            .objects
            .get_or_create_owned(&[("resource", resource)]);
        objects.set(self.store.len() as i64);
        let lacks_room = self.store.lacks_room();
        if self.lacks_room.swap(lacks_room, Ordering::Relaxed) != lacks_room {
            if lacks_room {
                warn!(
                    resource,
                    "objects take more memory than all of this kind may; those without room are left alone until others \
                     go"
                );
            } else {
                info!(resource, "all objects are kept in memory again");
            }
        }
    }
}

/// The version of `item`; empty if it has none.
fn version_of<V: View>(item: &Item<V>) -> &str {
    match item {
        Item::Decoded(view) => view.resource_version(),
        Item::Undecodable(Undecodable {
            resource_version, ..
        }) => resource_version,
    }
}

#[cfg(test)]
mod tests;

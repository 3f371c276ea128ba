//! Keeps a store in sync with the API server: list in pages, watch, list again when the watch is
//! too old. One task and one back-off per resource, so that a sick watch delays no other.
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
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use self::health::{Health, Sight};
use self::{pause::Pause, undecodable::UndecodableObjects};
use super::{
    api::Api,
    decode::{Item, ObjectEvent, Undecodable},
    error::ApiError,
    metrics::WatchMetrics,
    store::{Origin, Store, View},
};

mod health;
mod pause;
mod undecodable;

/// Objects in one page of a list. A Node is 14 kB of JSON: pages of 500 cost twice the memory of
/// pages of 100 and save nothing.
const PAGE: u32 = 100;

/// A watch that is silent for so long is followed by a list: bookmarks come about once a minute, and the
/// connection answers pings. The API server sends no bookmarks and nothing changes, or a proxy holds the events
/// back, or etcd was restored from a time before the watch's version: only a list shows which.
const SILENCE: Duration = Duration::from_secs(150);

/// A watch that lived so long was healthy: the next one starts immediately, with the back-off reset.
const HEALTHY: Duration = Duration::from_secs(20);

/// Why a watch has to be started again.
#[derive(Debug)]
enum End {
    /// The API server ended it, as it does after some minutes.
    Clean,
    /// Nothing came for [`SILENCE`] on an open watch.
    Silent,
    /// The version is too old: only a full list helps.
    Expired,
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
            Self::Outdated => "outdated",
            Self::Failed(_) => "error",
        }
    }
}

/// How a watch went.
#[derive(Debug, Default)]
struct WatchRun {
    opened: Option<Instant>,
    /// True if anything came.
    has_received: bool,
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
        shed: AtomicBool::default(),
    };
    stop.run_until_cancelled(reflector.keep_in_sync()).await;
}

struct Reflector<V> {
    api: Api,
    store: Arc<Store<V>>,
    health: Health,
    undecodable: UndecodableObjects,
    metrics: WatchMetrics,
    /// True if objects are too large to be kept.
    shed: AtomicBool,
}

impl<V: View> Reflector<V> {
    async fn keep_in_sync(&self) {
        let mut pause = Pause::default();
        // The version to watch from; none: list first.
        let mut version: Option<String> = None;
        // The last watch ended silent, and nothing was received since.
        let mut is_silent = false;
        loop {
            let mut run = WatchRun::default();
            let end = match version.take() {
                None => match self.list().await {
                    Ok(listed) => {
                        version = Some(listed);
                        continue;
                    }
                    Err(error) => End::of(error),
                },
                Some(mut at) => {
                    let end = self.watch(&mut at, &mut pause, &mut run).await;
                    is_silent &= !run.has_received;
                    if !matches!(end, End::Expired | End::Outdated | End::Silent) {
                        version = Some(at);
                    }
                    end
                }
            };
            // A list that fails after a long time, or a watch that is not opened, shows no health.
            let healthy = run.opened.is_some_and(|opened| opened.elapsed() >= HEALTHY);
            if healthy {
                pause = Pause::default();
            }
            self.ended(&end, &mut pause, is_silent);
            is_silent |= matches!(end, End::Silent);
            if healthy && matches!(end, End::Clean) {
                continue;
            }
            tokio::time::sleep(pause.next(fastrand::f64())).await;
        }
    }

    fn ended(&self, end: &End, pause: &mut Pause, is_silent: bool) {
        let resource = V::RESOURCE.name;
        let labels = [("resource", resource), ("reason", end.label())];
        self.metrics.restarts.get_or_create(&labels).inc();
        match end {
            End::Failed(error) => self.failed(error, pause),
            End::Outdated => info!(resource, "more of the objects is to be kept; listing again"),
            End::Expired => info!(resource, "the watch is too old; listing again"),
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

    /// A full list into the store, and the version that it shows.
    async fn list(&self) -> Result<String, ApiError> {
        let resource = V::RESOURCE.name;
        let labels = [("resource", resource)];
        self.metrics.lists.get_or_create(&labels).inc();
        self.store.begin_list();
        let mut listed: HashSet<Arc<str>> = HashSet::new();
        // Without its key, an object that cannot be decoded may be any of those that are not listed.
        let mut is_complete = true;
        let each = |item| {
            let key = self.store_object(item, Origin::List);
            is_complete &= !key.is_empty();
            listed.insert(key);
        };
        let version = self.api.list::<V>(V::RESOURCE.path, PAGE, each).await;
        self.count();
        let version = version?;
        let is_listed = |key: &str| !is_complete || listed.contains(key);
        self.store.finish_list(is_listed);
        self.undecodable.retain(|key| listed.contains(key));
        self.health.listed();
        self.count();
        self.shown();
        info!(resource, objects = listed.len(), "listed");
        Ok(version)
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

    /// Follows changes after `version`, which moves along, until the watch ends.
    async fn watch(&self, version: &mut String, pause: &mut Pause, run: &mut WatchRun) -> End {
        let resource = V::RESOURCE.name;
        let path = V::RESOURCE.path;
        let mut events = match self.api.watch::<V>(path, None, version, SILENCE).await {
            Ok(events) => std::pin::pin!(events),
            Err(error) => return End::of(error),
        };
        self.health.opened();
        run.opened = Some(Instant::now());
        if pause.failures > 0 {
            info!(resource, "watching again");
        }
        loop {
            let event = tokio::select! {
                event = timeout(SILENCE, events.next()) => event,
                () = self.store.outdated() => return End::Outdated,
            };
            let event = match event {
                Err(_) => return End::Silent,
                // Once in some minutes, which is often enough.
                Ok(None) if self.store.shed().1 => return End::Outdated,
                Ok(None) => return End::Clean,
                Ok(Some(Err(error))) => return End::of(error),
                Ok(Some(Ok(event))) => event,
            };
            run.has_received = true;
            let labels = [("resource", resource)];
            self.metrics.events.get_or_create(&labels).inc();
            match event {
                ObjectEvent::Applied(item) => {
                    move_on(version, &item);
                    self.store_object(item, Origin::Watch);
                }
                ObjectEvent::Deleted(item) => {
                    move_on(version, &item);
                    let key = match &item {
                        Item::Decoded(view) => &**view.key(),
                        Item::Undecodable(object) => &object.key,
                    };
                    self.undecodable.deleted(key);
                    self.store.delete(key, Origin::Watch);
                }
                ObjectEvent::Bookmark(at) => *version = at,
            }
            self.count();
            self.shown();
        }
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
        let (shed, _) = self.store.shed();
        if self.shed.swap(shed > 0, Ordering::Relaxed) != (shed > 0) {
            if shed > 0 {
                warn!(
                    resource,
                    "objects are too large to be kept in memory beside other large ones, and are left alone; an \
                     event on each names the field that takes the most"
                );
            } else {
                info!(resource, "all objects are kept in memory again");
            }
        }
    }
}

/// Moves the version to watch from on to that of `item`.
fn move_on<V: View>(version: &mut String, item: &Item<V>) {
    let new = match item {
        Item::Decoded(view) => view.resource_version(),
        Item::Undecodable(Undecodable {
            resource_version, ..
        }) => resource_version,
    };
    if !new.is_empty() {
        new.clone_into(version);
    }
}

#[cfg(test)]
mod tests;

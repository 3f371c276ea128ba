//! Keeps a store in sync with the API server: a list in pages, then a watch of the changes, which is followed by another
//! list when it is too old. Each resource has a task and a back-off of its own, so that a sick watch delays no other.
//!
//! The binary spawns [`run`] for each store, after all loops have subscribed to it. It never gives up; [`Health`] says for
//! `/readyz` and for the election whether it works. An object that cannot be decoded keeps its last view and is counted.
//!
//! kube-runtime's `watcher` does most of this, but keeps the whole metadata of each object for a stream of views, shows
//! neither bookmarks nor a clean end (a silent watch looks like a quiet one), and sets a list no time limit.
//!
//! RBAC: `list` and `watch` on the resource.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::StreamExt;
use outrigger_runtime::{log_repeated, telemetry::Repeats};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

pub(crate) use self::health::EtcdRevision;
pub use self::health::{Health, Resync, Sight};
use super::{
    api::Api,
    decode::{Item, ObjectEvent, Undecodable},
    error::ApiError,
    metrics::WatchMetrics,
    store::{Origin, Resource, Store, View},
};

mod health;

/// A watch that is silent for so long is followed by a list: bookmarks come about once a minute, and the
/// connection answers pings. The API server sends no bookmarks and nothing changes, or a proxy holds the events
/// back: only a list shows which.
const SILENCE: Duration = Duration::from_secs(150);

/// A watch that lived so long was healthy: the next one starts immediately, with the back-off reset.
const HEALTHY: Duration = Duration::from_secs(20);

/// Pause after the first failure; doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(10);

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
    /// More is to be kept of objects than was: only a full list shows it.
    Outdated,
    /// Anything else.
    Failed(ApiError),
}

impl End {
    fn of(error: ApiError) -> Self {
        if error.code() == Some(410) {
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
        undecodable: Mutex::default(),
        metrics,
        repeats: Repeats::default(),
    };
    stop.run_until_cancelled(reflector.keep_in_sync()).await;
}

struct Reflector<V> {
    api: Api,
    store: Arc<Store<V>>,
    health: Health,
    /// Keys of the objects that cannot be decoded at present.
    undecodable: Mutex<HashSet<String>>,
    metrics: WatchMetrics,
    repeats: Repeats,
}

impl<V: View> Reflector<V> {
    async fn keep_in_sync(&self) {
        let mut failures = 0_u32;
        let mut revision = self.health.revision();
        // The version to watch from; none: a list first.
        let mut version: Option<String> = None;
        loop {
            let mut opened = None;
            let end = if let Err(error) = self.same_cluster().await {
                End::Failed(error)
            } else if let Some(version) = &mut version {
                self.watch(version, &mut revision, failures, &mut opened)
                    .await
            } else {
                match self.list().await {
                    Ok(listed) => {
                        revision.answered(&listed);
                        version = Some(listed);
                        continue;
                    }
                    Err(error) => End::of(error),
                }
            };
            if matches!(end, End::Expired | End::Outdated | End::Silent) {
                version = None;
            }
            // A list that fails after a long time, or a watch that is not opened, shows no health.
            let healthy = opened.is_some_and(|opened: Instant| opened.elapsed() >= HEALTHY);
            if healthy {
                failures = 0;
            }
            self.ended(&end);
            if healthy && matches!(end, End::Clean) {
                continue;
            }
            let pause = pause(failures, fastrand::f64()).max(end.retry_after());
            failures = failures.saturating_add(1);
            tokio::time::sleep(pause).await;
        }
    }

    /// Confirms before a watch begins again that the API server is that of the same cluster.
    async fn same_cluster(&self) -> Result<(), ApiError> {
        if self.store.is_synced() {
            self.health.same_cluster().await?;
        }
        Ok(())
    }

    fn ended(&self, end: &End) {
        let resource = V::RESOURCE.name;
        self.metrics.restarts.of([resource, end.label()]).inc();
        match end {
            End::Failed(error) => {
                self.health.failed(error);
                log_repeated!(
                    warn, self.repeats, &error.cause(), resource, %error,
                    "cannot watch; trying again with back-off"
                );
            }
            End::Silent => log_repeated!(
                warn,
                self.repeats,
                end.label(),
                resource,
                "the watch is open and shows neither events nor bookmarks: the API server, or a proxy before it, may \
                 hold them back; listing again"
            ),
            End::Clean => debug!(resource, "the watch ended; starting it again"),
            End::Expired | End::Outdated => {
                info!(resource, reason = end.label(), "listing again");
            }
        }
    }

    /// A full list in pages into the store, and the version that it shows. Objects that did not come are forgotten once all
    /// pages have.
    async fn list(&self) -> Result<String, ApiError> {
        self.store.begin_list();
        // An object without a readable key may be any of those that did not come.
        let (mut keys, mut is_complete) = (HashSet::new(), true);
        let each = |item| {
            let is_decoded = matches!(item, Item::Decoded(_));
            let key = self.store_object(item, Origin::List);
            is_complete &= !key.is_empty();
            // An object that the store does not keep takes no memory here either.
            if !is_decoded || self.store.get(&key).is_some() {
                keys.insert(key);
            }
        };
        let Resource {
            name,
            path,
            selector,
        } = V::RESOURCE;
        let version = self.api.list::<V>(path, selector, each).await;
        self.count();
        let version = version?;
        self.store
            .finish_list(|key| !is_complete || keys.contains(key));
        let mut undecodable = self.undecodable.lock();
        undecodable.retain(|key| keys.contains(&**key));
        drop(undecodable);
        self.health.listed();
        self.count();
        info!(resource = name, objects = keys.len(), "listed");
        Ok(version)
    }

    /// Stores an object. Returns its key, which is empty if it is not known.
    fn store_object(&self, item: Item<V>, origin: Origin) -> Arc<str> {
        match item {
            Item::Decoded(view) => {
                let key = Arc::clone(view.key());
                self.undecodable.lock().remove(&*key);
                self.store.apply(view, origin);
                key
            }
            Item::Undecodable(object) => {
                let Undecodable { key, cause, .. } = &object;
                log_repeated!(
                    warn,
                    self.repeats,
                    cause,
                    resource = V::RESOURCE.name,
                    key,
                    error = cause,
                    "the object cannot be decoded, and its last state is kept"
                );
                self.undecodable.lock().insert(key.clone());
                if !object.uid.is_empty() {
                    self.store.forget_unless(&object.key, &object.uid, origin);
                }
                object.key.into()
            }
        }
    }

    /// Follows changes after `version`, which moves along, until the watch ends.
    async fn watch(
        &self,
        version: &mut String,
        revision: &mut EtcdRevision,
        failures: u32,
        opened: &mut Option<Instant>,
    ) -> End {
        let Resource {
            name,
            path,
            selector,
        } = V::RESOURCE;
        let watch = self.api.watch::<V>(path, selector, version, SILENCE);
        let mut events = match watch.await {
            Ok(events) => std::pin::pin!(events),
            Err(error) => return End::of(error),
        };
        self.health.opened();
        *opened = Some(Instant::now());
        if failures > 0 {
            info!(resource = name, "watching again");
        }
        loop {
            let event = tokio::select! {
                event = timeout(SILENCE, events.next()) => event,
                () = self.store.outdated() => return End::Outdated,
                () = revision.doubted() => return End::Expired,
            };
            let event = match event {
                Err(_) => return End::Silent,
                // Once in some minutes: there may be room by now.
                Ok(None) if self.store.lacks_room() => return End::Outdated,
                Ok(None) => return End::Clean,
                Ok(Some(Err(error))) => return End::of(error),
                Ok(Some(Ok(event))) => event,
            };
            let at: &str = match &event {
                ObjectEvent::Applied(item) | ObjectEvent::Deleted(item) => version_of(item),
                ObjectEvent::Bookmark(at) => at,
            };
            if !at.is_empty() {
                if !revision.shown(at) {
                    return End::Expired;
                }
                at.clone_into(version);
            }
            match event {
                ObjectEvent::Applied(item) => {
                    self.store_object(item, Origin::Watch);
                }
                ObjectEvent::Deleted(item) => self.delete(&item),
                ObjectEvent::Bookmark(_) => {}
            }
            self.count();
        }
    }

    /// Forgets an object that was deleted.
    fn delete(&self, item: &Item<V>) {
        let key = match item {
            Item::Decoded(view) => &**view.key(),
            Item::Undecodable(object) => &object.key,
        };
        self.undecodable.lock().remove(key);
        self.store.delete(key, Origin::Watch);
    }

    fn count(&self) {
        let resource = V::RESOURCE.name;
        let objects = self.store.len() as i64;
        self.metrics.objects.of([resource]).set(objects);
        let undecodable = self.undecodable.lock().len() as i64;
        self.metrics.undecodable.of([resource]).set(undecodable);
        if self.store.lacks_room() {
            log_repeated!(
                warn,
                self.repeats,
                "room",
                resource,
                "a requester has more pending objects than are kept of one; those beyond are left alone until others go"
            );
        }
    }
}

/// Exponential back-off over everything that ends a watch early, a clean end included: a server that closes each watch at
/// once must not be asked thousands of times a second. `random` in [0, 1) takes up to half of it away.
fn pause(failures: u32, random: f64) -> Duration {
    let full = MIN_PAUSE.saturating_mul(1 << failures.min(16));
    full.min(MAX_PAUSE).mul_f64(1.0 - random / 2.0)
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

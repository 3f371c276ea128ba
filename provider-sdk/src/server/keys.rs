//! Locks of changing calls: one at a time for each Service or route, and in all no more than the provider declared.
//!
//! The controller keeps to both already. But a handler outlives a call whose caller is gone, and the next call about the
//! same object, perhaps of the next leader, must wait for it. It waits in the order of arrival, at most 10 s, and until its
//! caller gives up. Lookups and lists take no lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::{Context, Error};

/// How long a call waits for another one of its key.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys that are being worked on, or waited for.
#[derive(Debug)]
pub(super) struct Keys {
    locks: parking_lot::Mutex<HashMap<String, Arc<Mutex<()>>>>,
    /// One permit for each piece of work that may go on at a time.
    slots: Arc<Semaphore>,
}

/// A key that is held until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    keys: Arc<Keys>,
    key: String,
    lock: Arc<Mutex<()>>,
    guard: Option<OwnedMutexGuard<()>>,
    /// Released with the key.
    slot: Option<OwnedSemaphorePermit>,
}

impl Keys {
    /// Keys with slots for `most` pieces of work at a time; 0: any number.
    ///
    /// The controller keeps to that number of calls, but a handler outlives a call whose deadline
    /// passed or whose connection was lost.
    pub(super) fn at_most(most: u32) -> Self {
        let slots = match most {
            0 => Semaphore::MAX_PERMITS,
            most => most as usize,
        };
        Self {
            locks: parking_lot::Mutex::default(),
            slots: Arc::new(Semaphore::new(slots)),
        }
    }

    /// Waits for its turn, in the order of arrival, and then for a slot.
    pub(super) async fn hold(self: &Arc<Self>, ctx: &Context, key: &str) -> Result<Held, Error> {
        // Made before the wait, so that a cancelled wait leaves nothing behind either.
        let mut held = Held {
            keys: Arc::clone(self),
            lock: Arc::clone(self.locks.lock().entry(key.to_owned()).or_default()),
            key: key.to_owned(),
            guard: None,
            slot: None,
        };
        let turn = timeout(PATIENCE, Arc::clone(&held.lock).lock_owned());
        held.guard = Some(ctx.unless_cancelled(turn).await?.map_err(|_| {
            Error::operation_in_progress(format!(
                "another call about {key} has been running for {PATIENCE:?}"
            ))
        })?);
        let slot = Arc::clone(&self.slots).acquire_owned();
        // It is never closed.
        held.slot = Some(
            ctx.unless_cancelled(slot)
                .await?
                .map_err(Error::unexpected)?,
        );
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.guard = None;
        self.slot = None;
        let mut keys = self.keys.locks.lock();
        // The map's own and ours: clones are made under the map's lock, so no other task adds one.
        if Arc::strong_count(&self.lock) == 2 {
            keys.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn ctx() -> Context {
        Context::detached(
            "r",
            outrigger_api::v1::ClusterInfo::default(),
            CancellationToken::new(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_held_once_and_leaves_nothing_behind() {
        let (keys, ctx) = (Arc::new(Keys::at_most(0)), ctx());
        let first = keys.hold(&ctx, "a").await.unwrap();
        keys.hold(&ctx, "b").now_or_never().unwrap().unwrap();
        assert!(keys.hold(&ctx, "a").now_or_never().is_none());
        let late = keys.hold(&ctx, "a").await.unwrap_err();
        assert_eq!(late.reason(), Some(crate::ErrorReason::OperationInProgress));
        ctx.cancellation().cancel();
        assert!(keys.hold(&ctx, "a").await.is_err());
        assert_eq!(keys.locks.lock().len(), 1);
        drop(first);
        assert!(keys.locks.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_keys_are_held_than_the_provider_takes() {
        let (keys, ctx) = (Arc::new(Keys::at_most(2)), ctx());
        let first = keys.hold(&ctx, "a").await.unwrap();
        let _second = keys.hold(&ctx, "b").await.unwrap();
        let third = keys.hold(&ctx, "c");
        tokio::pin!(third);
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        let third = third.await.unwrap();
        assert!(keys.hold(&ctx, "a").now_or_never().is_none());
        ctx.cancellation().cancel();
        assert!(keys.hold(&ctx, "a").await.is_err());
        drop(third);
        assert_eq!(keys.locks.lock().len(), 1, "a wait left its key behind");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_next() {
        let (keys, ctx) = (Arc::new(Keys::at_most(0)), ctx());
        let first = keys.hold(&ctx, "a").await.unwrap();
        let second = keys.hold(&ctx, "a");
        tokio::pin!(second);
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(keys.hold(&ctx, "a").now_or_never().is_none(), "overtaken");
        drop(second.await.unwrap());
        assert!(keys.locks.lock().is_empty());
    }
}

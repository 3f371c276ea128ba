//! One changing call per key at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::{Context, Error};

/// How long a call waits for another of its key. A batch must not fall silent for 60 s because of
/// one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys that are being worked on, or waited for.
#[derive(Debug, Default)]
pub(super) struct Keys(parking_lot::Mutex<HashMap<String, Arc<Mutex<()>>>>);

/// A key that is held until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    keys: Arc<Keys>,
    key: String,
    lock: Arc<Mutex<()>>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Keys {
    /// Waits for its turn, in the order of arrival.
    pub(super) async fn hold(self: &Arc<Self>, ctx: &Context, key: &str) -> Result<Held, Error> {
        let lock = Arc::clone(self.0.lock().entry(key.to_owned()).or_default());
        // Made before the wait, so that a wait that is given up leaves nothing behind either.
        let mut held = Held {
            keys: Arc::clone(self),
            key: key.to_owned(),
            lock,
            guard: None,
        };
        let turn = timeout(PATIENCE, Arc::clone(&held.lock).lock_owned());
        let turn = tokio::select! {
            biased;
            () = ctx.cancelled() => return Err(Error::cancelled()),
            turn = turn => turn,
        };
        held.guard = Some(turn.map_err(|_| {
            Error::operation_in_progress(format!(
                "another call about Service {key} has been running for {PATIENCE:?}"
            ))
        })?);
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.guard = None;
        let mut keys = self.keys.0.lock();
        // The map's own and ours: clones are made under the map's lock, so nobody else comes.
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
    use crate::Cluster;

    fn ctx() -> Context {
        Context::detached("r", Cluster::default(), CancellationToken::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_held_once_and_leaves_nothing_behind() {
        let (keys, ctx) = (Arc::new(Keys::default()), ctx());
        let first = keys.hold(&ctx, "a").await.unwrap();
        keys.hold(&ctx, "b").now_or_never().unwrap().unwrap();
        assert!(keys.hold(&ctx, "a").now_or_never().is_none());
        let late = keys.hold(&ctx, "a").await.unwrap_err();
        assert_eq!(
            late.reason(),
            Some(outrigger_api::v1::ErrorReason::OperationInProgress)
        );
        ctx.cancellation().cancel();
        assert!(keys.hold(&ctx, "a").await.is_err());
        assert_eq!(keys.0.lock().len(), 1);
        drop(first);
        assert!(keys.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_next() {
        let (keys, ctx) = (Arc::new(Keys::default()), ctx());
        let first = keys.hold(&ctx, "a").await.unwrap();
        let second = keys.hold(&ctx, "a");
        tokio::pin!(second);
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(keys.hold(&ctx, "a").now_or_never().is_none(), "overtaken");
        drop(second.await.unwrap());
        assert!(keys.0.lock().is_empty());
    }
}

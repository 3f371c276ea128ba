//! Objects as they change: a list, then a watch, then again, until the caller has seen enough and drops it.

use std::{convert::Infallible, fmt::Debug, pin::pin, time::Duration};

use futures::TryStreamExt;
use kube::{
    Api,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::{Error, Result};

/// Hands each object of `api` that `selector` selects to `seen`, now and whenever it changes; not
/// when it is deleted. `what` names them in errors.
///
/// Ends only when the API server has refused, or not answered, for some time.
pub(crate) async fn follow<K>(
    api: &Api<K>,
    selector: &str,
    what: &str,
    mut observe: impl FnMut(K),
) -> Result<Infallible>
where
    K: Clone + Debug + DeserializeOwned,
{
    const GIVE_UP: Duration = Duration::from_secs(30);
    const PAUSE: Duration = Duration::from_millis(250);
    let mut last_success = Instant::now();
    loop {
        match follow_once(api, selector, &mut observe, &mut last_success).await {
            Err(error) if last_success.elapsed() > GIVE_UP => {
                return Err(Error::kube(format!("cannot watch {what}"))(error));
            }
            _ => sleep(PAUSE).await,
        }
    }
}

async fn follow_once<K>(
    api: &Api<K>,
    selector: &str,
    observe: &mut impl FnMut(K),
    last_success: &mut Instant,
) -> kube::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let list = api.list(&ListParams::default().labels(selector)).await?;
    *last_success = Instant::now();
    list.items.into_iter().for_each(&mut *observe);
    let version = list.metadata.resource_version.unwrap_or_default();
    let selected = WatchParams::default().labels(selector);
    let mut events = pin!(api.watch(&selected, &version).await?);
    while let Some(event) = events.try_next().await? {
        *last_success = Instant::now();
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => observe(object),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            // Too old, most likely: a new list is the answer.
            WatchEvent::Error(_) => return Ok(()),
        }
    }
    Ok(())
}

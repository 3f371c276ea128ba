use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};

use super::{Volume, VolumeLookups, Volumes};
use crate::{Context, Error};

/// Looks up each volume by itself, a bounded number at a time, until the caller no longer waits. Shortly before
/// the deadline it returns what it has, and an error for each other one: one that hangs costs the others no answer.
pub(super) async fn get_each<V: Volumes + ?Sized>(
    provider: &V,
    ctx: &Context,
    volumes: &[Volume],
) -> Result<VolumeLookups, Error> {
    let lookup = async |volume: &Volume| {
        let result = AssertUnwindSafe(provider.get_volume(ctx, volume))
            .catch_unwind()
            .await;
        let result = result.unwrap_or_else(|panic| Err(ctx.panicked(panic.as_ref())));
        (volume.key.clone(), result)
    };
    let mut waiting = volumes.iter();
    let mut running: FuturesUnordered<_> = waiting
        .by_ref()
        .take(provider.capability().concurrency.max(1))
        .map(&lookup)
        .collect();
    let mut results = VolumeLookups::with_capacity(volumes.len());
    let over = ctx.nearly_over();
    tokio::pin!(over);
    loop {
        let next = tokio::select! {
            biased;
            () = ctx.cancelled() => return Err(Error::cancelled()),
            () = &mut over => {
                for volume in volumes {
                    results
                        .entry(volume.key.clone())
                        .or_insert_with(|| Err(Error::deadline_exceeded()));
                }
                return Ok(results);
            }
            next = running.next() => next,
        };
        let Some((key, result)) = next else {
            return Ok(results);
        };
        // Asking on would only meet the same wall, and a cloud that limits the rate counts each try.
        if let Err(error) = &result
            && error.stops_the_class()
        {
            let rest = waiting.by_ref();
            results.extend(rest.map(|volume| (volume.key.clone(), Err(error.again()))));
        }
        results.insert(key, result);
        running.extend(waiting.next().map(&lookup));
    }
}

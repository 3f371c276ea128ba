use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};

use super::{Route, RouteChange, RouteChanges};
use crate::{Context, Error};

/// Changes each route by itself, a bounded number at a time. Once the caller no longer waits, changes
/// in flight end and no other begins.
pub(super) async fn change_each<'a, F>(
    ctx: &Context,
    routes: &'a [Route],
    concurrency: usize,
    change: impl Fn(&'a Route) -> F,
) -> Result<RouteChanges, Error>
where
    F: Future<Output = Result<RouteChange, Error>>,
{
    let change = |route: &'a Route| {
        let changed = AssertUnwindSafe(change(route)).catch_unwind();
        changed.map(move |changed| (route, changed))
    };
    let mut waiting = routes.iter();
    let mut running: FuturesUnordered<_> = waiting
        .by_ref()
        .take(concurrency.max(1))
        .map(&change)
        .collect();
    let mut results = RouteChanges::with_capacity(routes.len());
    while let Some((route, changed)) = running.next().await {
        let changed = changed.unwrap_or_else(|panic| Err(ctx.panicked(panic.as_ref())));
        // Asking on would only meet the same wall, and a cloud that limits the rate counts each try.
        if let Err(error) = &changed
            && error.stops_the_class()
        {
            let rest = waiting.by_ref();
            results.extend(rest.map(|route| (route.destination_cidr.clone(), Err(error.again()))));
        }
        results.insert(route.destination_cidr.clone(), changed);
        if !ctx.is_cancelled() {
            running.extend(waiting.next().map(&change));
        }
    }
    ctx.check()?;
    Ok(results)
}

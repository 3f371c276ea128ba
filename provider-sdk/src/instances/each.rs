use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};

use super::{Instances, Lookups, Query};
use crate::{Context, Error, Node};

/// Looks up each Node by itself, a bounded number at a time, until the caller no longer waits. Shortly before
/// the deadline it returns what it has, and an error for each other one: one that hangs costs the others no answer.
pub(super) async fn get_each<I: Instances + ?Sized>(
    instances: &I,
    ctx: &Context,
    nodes: &[Node],
    query: &Query,
) -> Result<Lookups, Error> {
    let lookup = async |node: &Node| {
        let result = AssertUnwindSafe(instances.get_instance(ctx, node, query))
            .catch_unwind()
            .await;
        (
            node.name.clone(),
            result.unwrap_or_else(|panic| Err(ctx.panicked(panic.as_ref()))),
        )
    };
    let mut waiting = nodes.iter();
    let mut running: FuturesUnordered<_> = waiting
        .by_ref()
        .take(instances.capability().concurrency.max(1))
        .map(&lookup)
        .collect();
    let mut results = HashMap::with_capacity(nodes.len());
    let over = ctx.nearly_over();
    tokio::pin!(over);
    loop {
        let next = tokio::select! {
            biased;
            () = ctx.cancelled() => return Err(Error::cancelled()),
            () = &mut over => {
                for node in nodes {
                    results
                        .entry(node.name.clone())
                        .or_insert_with(|| Err(Error::deadline_exceeded()));
                }
                return Ok(results);
            }
            next = running.next() => next,
        };
        let Some((name, result)) = next else {
            return Ok(results);
        };
        // Asking on would only meet the same wall, and a cloud that limits the rate counts each try.
        if let Err(error) = &result
            && error.stops_the_class()
        {
            results.extend(
                waiting
                    .by_ref()
                    .map(|node| (node.name.clone(), Err(error.again()))),
            );
        }
        results.insert(name, result);
        running.extend(waiting.next().map(&lookup));
    }
}

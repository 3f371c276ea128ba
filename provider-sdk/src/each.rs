//! The default of [`Instances::get_instances`](crate::Instances::get_instances): a batch, for a cloud that answers one
//! lookup at a time.
//!
//! The trait's default method calls it with the vendor's `get_instance`. Each Node of the batch has an entry in the result,
//! whatever happens to the others: a panic, a lookup that hangs, a rate limit. Nothing is looked up twice.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::{FutureExt, StreamExt, stream};
use outrigger_api::v1::Node;
use parking_lot::Mutex;

use crate::{Context, Error, Lookup, Lookups};

/// Looks up each Node, a bounded number at a time, until the caller no longer waits; a panic is the error of its
/// Node. Shortly before the deadline it returns what it has, and an error for each other one: one that hangs costs the
/// others no answer.
pub(crate) async fn look_up_each<'a, F>(
    ctx: &Context,
    nodes: &'a [Node],
    concurrency: usize,
    look_up: impl Fn(&'a Node) -> F,
) -> Result<Lookups, Error>
where
    F: Future<Output = Result<Lookup, Error>>,
{
    let wall = &Mutex::new(None::<Error>);
    let answer = |node: &'a Node| {
        let look_up = &look_up;
        let looked_up = AssertUnwindSafe(async move { look_up(node).await }).catch_unwind();
        async move {
            ctx.check()?;
            // Asking on would only meet the same wall, and a cloud that limits the rate counts each try.
            if let Some(error) = &*wall.lock() {
                return Err(error.again());
            }
            let result = looked_up.await;
            let result = result.unwrap_or_else(|panic| Err(ctx.panicked(panic.as_ref())));
            if let Err(error) = &result
                && error.stops_the_class()
            {
                wall.lock().get_or_insert_with(|| error.again());
            }
            result
        }
    };
    let lookups = nodes
        .iter()
        .map(|node| answer(node).map(|result| (node.name.clone(), result)));
    let results = stream::iter(lookups.collect::<Vec<_>>())
        .buffer_unordered(concurrency.max(1))
        .take_until(ctx.nearly_over())
        .collect();
    let mut results: Lookups = ctx.unless_cancelled(results).await?;
    for node in nodes {
        let late = || Err(Error::deadline_exceeded());
        results.entry(node.name.clone()).or_insert_with(late);
    }
    Ok(results)
}

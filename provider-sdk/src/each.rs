//! Batches whose items a vendor answers one by one.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt, stream};
use parking_lot::Mutex;

use crate::{Context, Error};

/// Results of a batch by the keys of its items.
pub(crate) type Results<T> = HashMap<String, Result<T, Error>>;

/// Answers each item by itself, a bounded number at a time, in the order in which they end; a panic is the error
/// of its item. Once the caller no longer waits, items in flight end and no other begins.
pub(crate) fn each<'a, 'b, I, T, F>(
    ctx: &'b Context,
    items: &'a [I],
    concurrency: usize,
    answer: &'b impl Fn(&'a I) -> F,
) -> impl Stream<Item = (&'a I, Result<T, Error>)>
where
    F: Future<Output = Result<T, Error>>,
{
    let wall = Arc::new(Mutex::new(None::<Error>));
    let answer = move |item| {
        let wall = Arc::clone(&wall);
        let answered = async move {
            ctx.check()?;
            // Asking on would only meet the same wall, and a cloud that limits the rate counts each try.
            if let Some(error) = &*wall.lock() {
                return Err(error.again());
            }
            let result = AssertUnwindSafe(async { answer(item).await })
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| Err(ctx.panicked(panic.as_ref())));
            if let Err(error) = &result
                && error.stops_the_class()
            {
                wall.lock().get_or_insert_with(|| error.again());
            }
            result
        };
        answered.map(move |result| (item, result))
    };
    stream::iter(items)
        .map(answer)
        .buffer_unordered(concurrency.max(1))
}

/// Looks up each item, until the caller no longer waits. Shortly before the deadline it returns what it has, and
/// an error for each other one: one that hangs costs the others no answer.
pub(crate) async fn look_up_each<'a, I, T, F>(
    ctx: &Context,
    items: &'a [I],
    concurrency: usize,
    key: impl Fn(&I) -> &String,
    look_up: impl Fn(&'a I) -> F,
) -> Result<Results<T>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let results = each(ctx, items, concurrency, &look_up)
        .take_until(ctx.nearly_over())
        .map(|(item, result)| (key(item).clone(), result))
        .collect();
    let mut results: Results<T> = ctx.unless_cancelled(results).await?;
    for item in items {
        let late = || Err(Error::deadline_exceeded());
        results.entry(key(item).clone()).or_insert_with(late);
    }
    Ok(results)
}

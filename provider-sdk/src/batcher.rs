//! [`Batcher`]: one call of the cloud for many calls of the controller.
//!
//! The contract is unary where a change is concerned: the controller creates a hundred routes by a hundred calls. A cloud
//! that takes a hundred routes at a time would answer them one after the other. A vendor's handler gives its item to the
//! batcher instead, waits, and gets the answer about its item.
//!
//! The batcher has no timer and makes no call without a caller. It never retries, and never keeps an answer for a later
//! caller.

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Error;

/// Shares calls of the cloud among those that wait together: for a cloud that changes, or looks up, many objects by one
/// call.
///
/// A shared call begins after each of its callers has come, so that its answer is as fresh as each of them needs it. One
/// call is under way at a time; callers that come meanwhile share the next.
///
/// # Example
///
/// ```
/// use outrigger_provider_sdk::{Batcher, Context, Error, RouteSink, Routes, WithEffects, v1};
///
/// struct Cloud {
///     creations: Batcher<v1::Route, v1::Route>,
/// }
///
/// impl Cloud {
///     fn new() -> Self {
///         // A hundred routes are the most that a call of this cloud makes.
///         Self { creations: Batcher::new(100, create_routes) }
///     }
/// }
///
/// /// One call of the cloud: its answers are in the order of the routes.
/// async fn create_routes(routes: Vec<v1::Route>) -> Result<Vec<Result<v1::Route, Error>>, Error> {
///     let named = |route| v1::Route { name: "r-1".to_owned(), ..route };
///     Ok(routes.into_iter().map(|route| Ok(named(route))).collect())
/// }
///
/// impl Routes for Cloud {
///     async fn create_route(
///         &self,
///         ctx: &Context,
///         route: &v1::Route,
///     ) -> Result<WithEffects<Option<v1::Route>>, Error> {
///         ctx.check()?;
///         let made = self.creations.call(route.clone()).await?;
///         Ok(Some(made).into())
///     }
/// #   async fn list_routes(&self, _: &Context, _: &mut RouteSink) -> Result<(), Error> {
/// #       Ok(())
/// #   }
/// #   async fn delete_route(&self, _: &Context, _: &v1::Route) -> Result<WithEffects<()>, Error> {
/// #       Ok(().into())
/// #   }
/// }
/// ```
pub struct Batcher<I, A> {
    shared: Arc<Shared<I, A>>,
}

/// One call, with the answers in the order of the items.
type Call<I, A> =
    dyn Fn(Vec<I>) -> BoxFuture<'static, Result<Vec<Result<A, Error>>, Error>> + Send + Sync;

struct Shared<I, A> {
    most: usize,
    call: Box<Call<I, A>>,
    waiting: Mutex<Waiting<I, A>>,
}

struct Waiting<I, A> {
    callers: VecDeque<(I, oneshot::Sender<Result<A, Error>>)>,
    /// True while a task makes calls.
    is_served: bool,
}

impl<I: Send + 'static, A: Send + 'static> Batcher<I, A> {
    /// Calls are about 1 to `most` items. `call` answers each item at its place; its own error is that of each.
    pub fn new<F>(most: usize, call: impl Fn(Vec<I>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<Result<A, Error>>, Error>> + Send + 'static,
    {
        let waiting = Waiting {
            callers: VecDeque::new(),
            is_served: false,
        };
        let shared = Shared {
            most: most.max(1),
            call: Box::new(move |items| call(items).boxed()),
            waiting: Mutex::new(waiting),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Waits for the answer about an item. Dropping the future withdraws an item whose call has not begun.
    ///
    /// # Errors
    ///
    /// That of the item, or of its call; [`Error::internal`] if the call panics or has no answer for it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the task ends with its last caller, who sees that it gave no answer"
    )]
    pub async fn call(&self, item: I) -> Result<A, Error> {
        let (answer, answered) = oneshot::channel();
        let is_served = {
            let mut waiting = self.shared.waiting.lock();
            waiting.callers.push_back((item, answer));
            mem::replace(&mut waiting.is_served, true)
        };
        if !is_served {
            tokio::spawn(Arc::clone(&self.shared).serve());
        }
        let answered = answered.await;
        answered.unwrap_or_else(|_| Err(Error::internal("the shared call gave no answer for it")))
    }
}

impl<I: Send + 'static, A: Send + 'static> Shared<I, A> {
    /// Makes calls as long as a caller waits.
    async fn serve(self: Arc<Self>) {
        while let Some((items, mut answers)) = self.take() {
            let call = AssertUnwindSafe(async { (self.call)(items).await }).catch_unwind();
            // A call that all its callers have left is dropped: it may hang.
            let gone = join_all(answers.iter_mut().map(oneshot::Sender::closed));
            let called = tokio::select! {
                called = call => called,
                _ = gone => continue,
            };
            // A panic ends this call alone.
            let Ok(called) = called else { continue };
            let of_each = |error: Error| answers.iter().map(|_| Err(error.again())).collect();
            let results: Vec<_> = called.unwrap_or_else(of_each);
            for (answer, result) in answers.into_iter().zip(results) {
                let _ = answer.send(result);
            }
        }
    }

    /// The items of the next call, and where their answers go; none if no caller waits.
    #[expect(clippy::type_complexity, reason = "two lists of one length")]
    fn take(&self) -> Option<(Vec<I>, Vec<oneshot::Sender<Result<A, Error>>>)> {
        let mut waiting = self.waiting.lock();
        waiting.callers.retain(|(_, answer)| !answer.is_closed());
        let most = self.most.min(waiting.callers.len());
        let call: (Vec<_>, Vec<_>) = waiting.callers.drain(..most).unzip();
        waiting.is_served = most > 0;
        waiting.is_served.then_some(call)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    const A_CALL: Duration = Duration::from_secs(1);

    /// Answers each number with the numbers of its call, after a second; fails for 7, and panics of 8.
    fn batcher(most: usize) -> Batcher<u32, Vec<u32>> {
        Batcher::new(most, |items: Vec<u32>| async move {
            sleep(A_CALL).await;
            assert!(!items.contains(&8), "as scripted");
            if items.contains(&7) {
                return Err(Error::cloud_unavailable("away"));
            }
            let answer = |item: &u32| match item {
                6 => Err(Error::cloud_error("no six")),
                _ => Ok(items.clone()),
            };
            Ok(items.iter().map(answer).collect())
        })
    }

    async fn call_all(batcher: &Batcher<u32, Vec<u32>>, items: &[u32]) -> Vec<Option<Vec<u32>>> {
        let calls = items
            .iter()
            .map(async |item| batcher.call(*item).await.ok());
        join_all(calls).await
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_together_share_a_call_that_begins_after_they_came() {
        let batcher = batcher(3);
        let started = Instant::now();
        let later = async {
            sleep(A_CALL / 2).await;
            call_all(&batcher, &[2, 3, 4, 5]).await
        };
        let (first, later) = tokio::join!(batcher.call(1), later);
        assert_eq!(first.ok(), Some(vec![1]));
        let three = Some(vec![2, 3, 4]);
        let expected = [three.clone(), three.clone(), three, Some(vec![5])];
        assert_eq!(later, expected);
        assert_eq!(started.elapsed(), A_CALL * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_a_call_is_that_of_each_caller_and_an_error_of_an_item_its_own() {
        let batcher = batcher(9);
        assert_eq!(call_all(&batcher, &[1, 6]).await, [Some(vec![1, 6]), None]);
        assert_eq!(call_all(&batcher, &[1, 7]).await, [None, None]);
        // Nor does a panic end it.
        assert_eq!(call_all(&batcher, &[1, 8]).await, [None, None]);
        assert_eq!(call_all(&batcher, &[1]).await, [Some(vec![1])]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_has_gone_is_in_no_call() {
        let batcher = batcher(9);
        let gone = async {
            sleep(A_CALL / 4).await;
            let gone = timeout(A_CALL / 4, batcher.call(2));
            let (gone, stays) = tokio::join!(gone, batcher.call(3));
            gone.unwrap_err();
            stays
        };
        let (_, stays) = tokio::join!(batcher.call(1), gone);
        assert_eq!(stays.ok(), Some(vec![3]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_never_ends_keeps_no_later_one_from_beginning() {
        let batcher = Batcher::new(9, |items: Vec<u32>| async move {
            if items.contains(&1) {
                std::future::pending::<()>().await;
            }
            Ok(items.into_iter().map(Ok).collect())
        });
        let hangs = timeout(A_CALL, batcher.call(1));
        hangs.await.unwrap_err();
        let next = timeout(A_CALL, batcher.call(2));
        assert_eq!(next.await.unwrap().ok(), Some(2));
    }
}

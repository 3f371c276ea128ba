//! Sends a batch, and each caller its answer.

use std::{future::poll_fn, mem, sync::Arc, task::Poll, time::Duration};

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Asked, BatchAnswer, Error, Permit, RPC, Session, Shared,
    results::{one_each, speaks_for_all},
};
use crate::lookup::{LookupAnswer, refuse_shared_ids};

/// How often a batch is split whose call fails because of its request: often enough to find one Node among 250, and
/// no storm if every call fails.
const SPLITS: usize = 8;

/// Calls about one Node at once, after a call that left several without an answer: a Node that hangs delays the others
/// of its call by one deadline, and leaves places to other calls.
const ALONE_AT_ONCE: usize = 2;

/// A Node that waits longer for a call of its own fails: its caller has to know, and asks again.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// A part of a batch after its call: the Nodes that it was about, and their answers.
type Part = (Vec<Asked>, Result<Vec<LookupAnswer>, Error>);

/// Sends a batch, and each caller its answer. A call that fails because of its request is repeated by halves, so that
/// one Node does not fail the others. A Node that was not answered until the deadline is asked about again alone.
pub(super) async fn send_batch(
    shared: Arc<Shared>,
    admitted: (Permit, Arc<Session>),
    items: Vec<Asked>,
) {
    let is_alone = items.len() == 1;
    // True while the call was about several Nodes and all of them met the same error.
    let mut is_common = !is_alone;
    let mut admitted = Some(admitted);
    let mut splits = SPLITS;
    let mut parts = vec![items];
    let mut unanswered = Vec::new();
    while let Some(items) = parts.pop() {
        let is_last = parts.is_empty() && (items.len() == 1 || splits == 0);
        let call = call_batch(&shared, admitted.take(), items, is_common && is_last);
        let (mut items, answers) = call.await;
        match answers {
            Ok(answers) => {
                is_common = false;
                for (item, answer) in items.into_iter().zip(answers) {
                    match answer.result {
                        Err(error) if error.is_no_answer() => unanswered.push((item, error)),
                        result => item.answer(BatchAnswer { result, ..answer }),
                    }
                }
            }
            Err(error) if error.is_no_answer() => {
                unanswered.extend(items.into_iter().map(|item| (item, error.clone())));
            }
            Err(error) if error.is_about_request() && items.len() > 1 && splits > 0 => {
                splits -= 1;
                let rest = items.split_off(items.len() / 2);
                parts.extend([rest, items]);
            }
            Err(error) => fail_all(items, &error),
        }
    }
    // A Node whose call was its own already fails.
    let until = (!is_alone).then(|| Instant::now() + LONGEST_WAIT);
    let again = unanswered.into_iter().map(|(item, error)| {
        item.mark_sent(false);
        let shared = &shared;
        async move {
            if until.is_none_or(|until| Instant::now() >= until) {
                return item.fail(error);
            }
            match call_batch(shared, None, vec![item], false).await {
                (items, Ok(answers)) => {
                    for (item, answer) in items.into_iter().zip(answers) {
                        item.answer(answer);
                    }
                }
                (items, Err(error)) => fail_all(items, &error),
            }
        }
    });
    let again = again.collect::<Vec<_>>();
    stream::iter(again)
        .buffer_unordered(ALONE_AT_ONCE)
        .collect::<()>()
        .await;
}

fn fail_all(items: Vec<Asked>, error: &Error) {
    for item in items {
        item.fail(error.clone());
    }
}

/// Makes one call about Nodes of one purpose and one lease term, after its admission if it has none. `common`: one that
/// fails as a whole has the error of all calls about these Nodes.
async fn call_batch(
    shared: &Shared,
    admitted: Option<(Permit, Arc<Session>)>,
    items: Vec<Asked>,
    common: bool,
) -> Part {
    let Some(first) = items.first() else {
        return (items, Ok(Vec::new()));
    };
    let (purpose, of_all) = (first.lookup.purpose, first.preconditions.without_check());
    let admitted = if let Some(admitted) = admitted {
        Ok(admitted)
    } else {
        let admitted = of_all.wait(RPC, shared.admit(purpose.into())).await;
        admitted.and_then(|admitted| admitted)
    };
    let (permit, session) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => return (items, Err(error)),
    };
    shared.metrics.batched(purpose, items.len());
    let began = Instant::now();
    let open = Arc::new(Mutex::new(items));
    let open_items = Arc::clone(&open);
    let preconditions = of_all.only_while(move || {
        let mut open = open_items.lock();
        let items = mem::take(&mut *open).into_iter();
        *open = items.filter_map(Asked::begin).collect();
        !open.is_empty()
    });
    let keys = Mutex::new(Vec::new());
    let request = |session: &Session| {
        let open = open.lock();
        let items = open.iter().map(|item| item.lookup.message(session));
        let items: Vec<_> = items.collect();
        *keys.lock() = items.iter().map(|item| item.name.clone()).collect();
        purpose.request(items)
    };
    let call = shared.call(&permit, &preconditions, &session, request);
    let is_abandoned = poll_fn(|cx| {
        let mut open = open.lock();
        if open
            .iter_mut()
            .all(|item| item.poll_abandoned(cx).is_ready())
        {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    let ended = tokio::select! {
        biased;
        ended = call => ended,
        () = is_abandoned => return (Vec::new(), Ok(Vec::new())),
    };
    let items = mem::take(&mut *open.lock());
    let results = match ended {
        Ok(response) => response.results,
        Err(error) => {
            if common && error.is_opaque() {
                permit.all_failed(&error);
            }
            return (items, Err(error));
        }
    };
    let took = began.elapsed();
    let (outcomes, strays) = one_each(&keys.into_inner(), results, took);
    shared.metrics.strays(strays);
    // The session of the answer may be newer, but only by what a process behind one name changes.
    let answers = items.iter().zip(outcomes).map(|(item, outcome)| {
        let read = |outcome| item.lookup.read(outcome, shared, &session, took);
        BatchAnswer {
            result: outcome.result.and_then(read),
            effects: outcome.effects,
        }
    });
    let mut answers: Vec<_> = answers.collect();
    refuse_shared_ids(&mut answers);
    let errors = answers.iter();
    let errors = errors.map(|answer| answer.result.as_ref().err());
    if let Some(error) = speaks_for_all(errors) {
        permit.failed(error);
    }
    // The next batch may be admitted before the callers go on.
    (items, Ok(answers))
}

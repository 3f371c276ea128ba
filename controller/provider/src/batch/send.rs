//! Sends a batch, and each caller its answer.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use futures::{StreamExt, stream};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Asked, BatchAnswer, Error, Permit, RPC, Session, Shared, fail_all,
    results::{one_each, speaks_for_all},
};
use crate::lookup::{LookupAnswer, METHOD, NodeLookup, read_batch, refuse_shared_ids, request};

/// How often a batch is split whose call fails because of its request: often enough to find one Node among 250, and
/// no storm if every call fails.
const SPLITS: usize = 8;

/// Calls about one Node at once, after a call that left several without an answer: a Node that hangs delays the others
/// of its call by one deadline, and leaves places to other calls.
const ALONE_AT_ONCE: usize = 2;

/// A Node that waits longer for a call of its own fails: its caller has to know, and asks again.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

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
                // A request that is too large was not sent.
                splits -= usize::from(!matches!(error, Error::TooLarge { .. }));
                let rest = items.split_off(items.len() / 2);
                parts.extend([rest, items]);
            }
            Err(error) => fail_all(items, &error),
        }
    }
    // A Node whose call was its own already fails.
    let until = (!is_alone).then(|| Instant::now() + LONGEST_WAIT);
    let again = unanswered.into_iter().map(|(item, error)| {
        let shared = &shared;
        async move {
            if until.is_none_or(|until| Instant::now() >= until) {
                return item.fail(&error);
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

/// Makes one call about Nodes of one purpose and one lease term, after its admission if it has none. Returns those whose
/// callers still wait, with their answers. `common`: one that fails as a whole has the error of all calls about these
/// Nodes.
async fn call_batch(
    shared: &Shared,
    admitted: Option<(Permit, Arc<Session>)>,
    mut items: Vec<Asked>,
    common: bool,
) -> (Vec<Asked>, Result<Vec<LookupAnswer>, Error>) {
    items.retain(Asked::is_wanted);
    // The cloud is asked as the strictest of them wants it.
    let purpose = items.iter().map(|item| item.lookup.purpose).min();
    let (Some(purpose), Some(first)) = (purpose, items.first()) else {
        return (items, Ok(Vec::new()));
    };
    let preconditions = first.preconditions.clone();
    let admitted = if let Some(admitted) = admitted {
        Ok(admitted)
    } else {
        let admitted = preconditions.wait(RPC, shared.admit(METHOD));
        admitted.await.and_then(|admitted| admitted)
    };
    let (permit, session) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => return (items, Err(error)),
    };
    shared.metrics.batched(purpose, items.len());
    let began = Instant::now();
    let lookups: Vec<NodeLookup> = items.iter().map(|item| item.lookup.clone()).collect();
    let request = |session: &Session| request(purpose, &lookups, session);
    let call = shared.call(&permit, &preconditions, &session, request);
    let is_abandoned = poll_fn(|cx| {
        let mut callers = items.iter_mut().map(|item| &mut item.caller);
        let is_gone = |caller: &mut oneshot::Sender<_>| caller.poll_closed(cx).is_ready();
        if callers.all(is_gone) {
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
    let names: Vec<_> = lookups.iter().map(|lookup| &*lookup.node.name).collect();
    let (outcomes, strays) = one_each(&names, results, took);
    shared.metrics.strays(strays);
    // The session of the answer may be newer, but only by what a process behind one name changes.
    let instances = session.instances.as_ref();
    let answers = lookups.iter().zip(outcomes).map(|(lookup, outcome)| {
        let read = |outcome| read_batch(outcome, lookup, took, instances, &shared.repeats);
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

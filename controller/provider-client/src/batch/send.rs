//! Sends a batch, and each caller its answer.

use std::{future::poll_fn, mem, sync::Arc, task::Poll};

use outrigger_api::BatchRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    AnsweredCall, Asked, BatchAnswer, BatchObject, CallOf, Error, GatheredObject, Permit, Session,
    Shared, one_each, results::speaks_for_all,
};

/// A part of a batch after its call: the objects that it was about, and their answers.
type Part<B> = (
    Vec<Asked<B>>,
    Result<Vec<BatchAnswer<<B as BatchObject>::Found>>, Error>,
);

/// Sends a batch, and each caller its answer. Where a batch may be split, a call that fails because of its request is
/// repeated by halves, so that one object does not fail the others. Returns the objects that are to be asked about
/// again, since they were not answered until the deadline.
pub(super) async fn send_batch<B: GatheredObject>(
    shared: Arc<Shared>,
    admitted: (Permit, Arc<Session>),
    items: Vec<Asked<B>>,
) -> Vec<(Asked<B>, Error)> {
    let mut unanswered = Vec::new();
    let Some(first) = items.first() else {
        return unanswered;
    };
    // All are of one group and one lease term.
    let (group, rpc) = (first.object.group(), first.object.method().name);
    let preconditions = first.preconditions.without_check();
    let mut admitted = Some(admitted);
    let mut splits = B::SPLITS;
    // True while the call was about several objects and all of them met the same error.
    let mut is_common = items.len() > 1 && splits > 0;
    let mut parts = vec![items];
    while let Some(items) = parts.pop() {
        let admitted = if let Some(admitted) = admitted.take() {
            Ok(Ok(admitted))
        } else {
            let admitted = shared.admit(B::urgency(group));
            preconditions.wait(rpc, admitted).await
        };
        let (mut items, answers) = match admitted {
            Ok(Ok(admitted)) => {
                let is_last = parts.is_empty() && (items.len() == 1 || splits == 0);
                call_batch(&shared, admitted, items, is_common && is_last).await
            }
            Ok(Err(error)) | Err(error) => (items, Err(error)),
        };
        let is_repeated = |error: &Error| B::IS_REPEATED && error.is_no_answer();
        match answers {
            Ok(answers) => {
                is_common = false;
                for (item, answer) in items.into_iter().zip(answers) {
                    match answer.result {
                        Err(error) if is_repeated(&error) => unanswered.push((item, error)),
                        _ => item.answer(&answer),
                    }
                }
            }
            Err(error) if is_repeated(&error) => {
                unanswered.extend(items.into_iter().map(|item| (item, error.clone())));
            }
            Err(error) if error.is_about_request() && items.len() > 1 && splits > 0 => {
                splits -= 1;
                let rest = items.split_off(items.len() / 2);
                parts.extend([rest, items]);
            }
            Err(error) => {
                for item in items {
                    item.fail(error.clone());
                }
            }
        }
    }
    unanswered
}

/// Makes one call. `common`: one that fails as a whole has the error of all calls about these objects.
async fn call_batch<B: GatheredObject>(
    shared: &Shared,
    (permit, session): (Permit, Arc<Session>),
    items: Vec<Asked<B>>,
    common: bool,
) -> Part<B> {
    let Some(first) = items.first() else {
        return (items, Ok(Vec::new()));
    };
    let (group, method) = (first.object.group(), first.object.method());
    let of_all = first.preconditions.clone();
    B::count(group, &shared.metrics, items.len());
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
    let messages = |session: &Session| {
        let open = open.lock();
        let items = open.iter().zip(0..);
        let items = items.map(|(item, place)| item.object.message(session, place));
        let items: Vec<_> = items.collect();
        let key = |item| B::Request::key(item).to_owned();
        *keys.lock() = items.iter().map(key).collect();
        items
    };
    let call = CallOf {
        shared,
        permit: &permit,
        preconditions: &preconditions,
        session: &session,
    };
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
        ended = B::call(group, call, messages) => ended,
        () = is_abandoned, if !method.changes_cloud => return (Vec::new(), Ok(Vec::new())),
    };
    let items = mem::take(&mut *open.lock());
    let results = match ended {
        Ok(results) => results,
        Err(error) => {
            if common && error.is_opaque() {
                permit.all_failed(&error);
            }
            return (items, Err(error));
        }
    };
    // The session of the answer may be newer, but only by what a process behind one name changes.
    let call = AnsweredCall {
        shared,
        session: &session,
        took: began.elapsed(),
    };
    let (outcomes, strays) = one_each(method, B::KIND, &keys.into_inner(), results, call.took);
    shared.metrics.strays(strays);
    let answers = items.iter().zip(outcomes).map(|(item, outcome)| {
        let read = |outcome| item.object.read(outcome, &call);
        BatchAnswer {
            result: outcome.result.and_then(read),
            effects: outcome.effects,
        }
    });
    let mut answers: Vec<_> = answers.collect();
    B::compare(&mut answers);
    // A call whose result is unknown may have changed its object.
    let is_known = |error: &&Error| !(method.changes_cloud && error.leaves_result_unknown());
    let errors = answers.iter();
    let errors = errors.map(|answer| answer.result.as_ref().err().filter(is_known));
    if let Some(error) = speaks_for_all(errors) {
        permit.failed(error);
    }
    // The next batch may be admitted before the callers go on.
    (items, Ok(answers))
}

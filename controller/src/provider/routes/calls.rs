//! Calls that change routes.

use std::{mem, sync::Arc};

use outrigger_api::v1;
use parking_lot::Mutex;

use super::{
    pending::{PendingRoute, RouteChange},
    results,
};
use crate::provider::{
    Session, Shared,
    admission::Permit,
    batch::{BatchItem, speaks_for_all},
};

/// Makes one call for changes of one kind, and sends each caller its answer.
pub(super) async fn send_batch(
    shared: Arc<Shared>,
    (permit, session): (Permit, Arc<Session>),
    batch: Vec<PendingRoute>,
) {
    let Some(first) = batch.first() else { return };
    let is_create = matches!(first.change, RouteChange::Create(_));
    shared.metrics.routes_batched(batch.len());
    // All are of one lease term.
    let of_all = first.preconditions.clone();
    let open = Arc::new(Mutex::new(batch));
    let asked = Arc::clone(&open);
    let preconditions = of_all.only_while(move || {
        let mut open = asked.lock();
        let batch = mem::take(&mut *open).into_iter();
        *open = batch.filter_map(PendingRoute::begin).collect();
        !open.is_empty()
    });
    let routes = || open.lock().iter().map(|one| one.change.message()).collect();
    let ended = if is_create {
        let request = |_: &Session| v1::BatchCreateRoutesRequest {
            context: None,
            items: routes(),
        };
        let call = shared.call(&permit, &preconditions, &session, request);
        call.await.map(|response| response.results)
    } else {
        let request = |_: &Session| v1::BatchDeleteRoutesRequest {
            context: None,
            items: routes(),
        };
        let call = shared.call(&permit, &preconditions, &session, request);
        call.await.map(|response| response.results)
    };
    let batch = mem::take(&mut *open.lock());
    let results = match ended {
        Ok(results) => results,
        Err(error) => {
            for pending in batch {
                pending.fail(error.clone());
            }
            return;
        }
    };
    let changes: Vec<&RouteChange> = batch.iter().map(|one| &one.change).collect();
    let read = results::read(results, &changes);
    shared.metrics.strays(read.strays);
    // A route without a result may have been changed.
    let refusals = read.answers.iter().map(|answer| {
        let error = answer.result.as_ref().err();
        error.filter(|error| !error.leaves_result_unknown())
    });
    if let Some(error) = speaks_for_all(refusals) {
        permit.failed(error);
    }
    // The next batch may be admitted before the callers go on.
    drop(permit);
    for (pending, answer) in batch.into_iter().zip(read.answers) {
        pending.caller.answer(answer);
    }
}

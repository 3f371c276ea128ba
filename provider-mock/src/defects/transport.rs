//! Mistakes about the socket, HTTP/2, messages and methods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_api::v1::{ErrorReason, GetStatusRequest, HandshakeRequest, ListInstancesRequest};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tonic::Status;

use super::hook::On;
use super::listening::Listening;
use super::{Defect, kept, refusal};
use crate::exchange::Answer;
use crate::faults::Method;

/// How long a heartbeat of a slow provider takes: less than the contract allows.
const A_MOMENT: Duration = Duration::from_millis(20);

const STATUS: On = On::Method(Method::GetStatus);

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("socket-mode").listening(Listening::Mode(0o755)),
        one_authority(),
        newest_connection(),
        Defect::new("few-calls").call::<GetStatusRequest, _>({
            let free = kept(Semaphore::new(32));
            move |call, next| async move {
                let Ok(_permit) = free.try_acquire() else {
                    let text = "32 calls are in flight";
                    return Answer::failed(refusal(ErrorReason::Overloaded, text));
                };
                sleep(A_MOMENT).await;
                next.serve(call).await
            }
        }),
        Defect::new("small-messages").refuses_call(On::Every, |call| {
            let text = "received message larger than max";
            (call.largest() > 1 << 20).then(|| Status::resource_exhausted(text))
        }),
        Defect::new("endless-messages")
            .call::<GetStatusRequest, _>(|call, next| next.serve(call.with(&GetStatusRequest {}))),
        Defect::new("strict-fields").refuses_call(STATUS, |call| {
            let text = "unknown field 1000";
            (call.largest() > 0).then(|| refusal(ErrorReason::InvalidRequest, text))
        }),
        Defect::new("unknown-method").refuses_call(On::UnknownMethod, |_| {
            Some(Status::internal("no such method"))
        }),
        Defect::new("unknown-service").refuses_call(On::UnknownService, |_| {
            Some(Status::unknown("no such service"))
        }),
        closes_idle(),
        cancelled_lock(),
        Defect::new("refuses-tracing").refuses_call(STATUS, |call| {
            let is_traced = call.head.headers.contains_key("traceparent");
            let text = "unknown metadata traceparent";
            is_traced.then(|| refusal(ErrorReason::InvalidRequest, text))
        }),
        lock_while_sent(),
    ]
}

fn lock_while_sent() -> Defect {
    let cache = kept(tokio::sync::Mutex::new(()));
    Defect::new("lock-while-sent")
        .call::<ListInstancesRequest, _>(move |call, next| async move {
            let held = cache.lock().await;
            next.serve(call).await.holding(held)
        })
        .call::<GetStatusRequest, _>(move |call, next| async move {
            let _held = cache.lock().await;
            next.serve(call).await
        })
}

fn one_authority() -> Defect {
    Defect::new("one-authority").refuses_call(On::Every, |call| {
        let authority = call.head.uri.authority();
        let is_other = authority.is_some_and(|authority| authority != "localhost");
        is_other.then(|| Status::unimplemented("no such host"))
    })
}

/// Each call is a sign of life of its connection.
#[expect(
    clippy::disallowed_methods,
    reason = "no owner watches a connection that is idle"
)]
fn closes_idle() -> Defect {
    const LIMIT: Duration = Duration::from_millis(800);
    let calls: &Mutex<BTreeMap<u64, usize>> = kept(Mutex::default());
    let count = move |number: u64| calls.lock().get(&number).copied();
    Defect::new("closes-idle").around(On::Every, move |call, next| {
        if let Some(peer) = call.peer().cloned() {
            *calls.lock().entry(peer.number).or_default() += 1;
            let latest = count(peer.number);
            tokio::spawn(async move {
                sleep(LIMIT).await;
                if count(peer.number) == latest {
                    peer.close.cancel();
                }
            });
        }
        next.serve(call)
    })
}

fn newest_connection() -> Defect {
    let newest = kept(Mutex::new(0));
    Defect::new("newest-connection")
        .call::<HandshakeRequest, _>(move |call, next| {
            *newest.lock() = call.connection();
            next.serve(call)
        })
        .refuses_call(STATUS, move |call| {
            let text = "another controller has shaken hands since";
            let is_old = call.connection() < *newest.lock();
            is_old.then(|| refusal(ErrorReason::NotHandshaked, text))
        })
}

fn cancelled_lock() -> Defect {
    let locked: &Mutex<BTreeSet<u64>> = kept(Mutex::default());
    Defect::new("cancelled-lock")
        .refuses_call(STATUS, move |call| {
            let is_locked = locked.lock().contains(&call.connection());
            is_locked.then(|| Status::unavailable("the lock is taken"))
        })
        .cancelled::<GetStatusRequest>(A_MOMENT, move |call| {
            locked.lock().insert(call.connection());
        })
}

//! Mistakes about the socket, HTTP/2, messages and methods.

use std::collections::BTreeSet;
use std::time::Duration;

use outrigger_api::v1::{ErrorReason, GetStatusRequest, HandshakeRequest, ListInstancesRequest};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tonic::Status;

use super::cancelled::Cancelled;
use super::hook::On;
use super::listening::Listening;
use super::{Defect, kept, refusal};
use crate::exchange::Answer;

/// How long a heartbeat of a slow provider takes: less than the contract allows.
const A_MOMENT: Duration = Duration::from_millis(20);

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("socket-mode").listening(Listening {
            mode: Some(0o755),
            ..Listening::default()
        }),
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
        Defect::new("small-messages").around(On::Every, |call, next| async move {
            if call.largest() > 1 << 20 {
                let text = "received message larger than max";
                return Answer::failed(Status::resource_exhausted(text));
            }
            next.serve(call).await
        }),
        Defect::new("endless-messages")
            .call::<GetStatusRequest, _>(|call, next| next.serve(call.with(&GetStatusRequest {}))),
        Defect::new("strict-fields").call::<GetStatusRequest, _>(|call, next| async move {
            if call.largest() > 0 {
                let text = "unknown field 1000";
                return Answer::failed(refusal(ErrorReason::InvalidRequest, text));
            }
            next.serve(call).await
        }),
        Defect::new("unknown-method").around(On::UnknownMethod, |_, _| async {
            Answer::failed(Status::internal("no such method"))
        }),
        Defect::new("unknown-service").around(On::UnknownService, |_, _| async {
            Answer::failed(Status::unknown("no such service"))
        }),
        Defect::new("closes-idle").listening(Listening {
            idle: Some(Duration::from_millis(800)),
            ..Listening::default()
        }),
        cancelled_lock(),
        Defect::new("refuses-tracing").call::<GetStatusRequest, _>(|call, next| async move {
            if call.head.headers.contains_key("traceparent") {
                let text = "unknown metadata traceparent";
                return Answer::failed(refusal(ErrorReason::InvalidRequest, text));
            }
            next.serve(call).await
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
    Defect::new("one-authority").around(On::Every, |call, next| async move {
        let authority = call.head.uri.authority().map(ToString::to_string);
        if authority.is_some_and(|authority| authority != "localhost") {
            return Answer::failed(Status::unimplemented("no such host"));
        }
        next.serve(call).await
    })
}

fn newest_connection() -> Defect {
    let newest = kept(Mutex::new(0));
    Defect::new("newest-connection")
        .call::<HandshakeRequest, _>(move |call, next| {
            *newest.lock() = call.connection();
            next.serve(call)
        })
        .call::<GetStatusRequest, _>(move |call, next| {
            let is_old = call.connection() < *newest.lock();
            async move {
                if is_old {
                    let text = "another controller has shaken hands since";
                    return Answer::failed(refusal(ErrorReason::NotHandshaked, text));
                }
                next.serve(call).await
            }
        })
}

fn cancelled_lock() -> Defect {
    let locked: &Mutex<BTreeSet<u64>> = kept(Mutex::default());
    Defect::new("cancelled-lock").call::<GetStatusRequest, _>(move |call, next| {
        let connection = call.connection();
        async move {
            if locked.lock().contains(&connection) {
                return Answer::failed(Status::unavailable("the lock is taken"));
            }
            let cancelled = Cancelled::new(move || {
                locked.lock().insert(connection);
            });
            sleep(A_MOMENT).await;
            let answer = next.serve(call).await;
            cancelled.done();
            answer
        }
    })
}

//! Mistakes about the socket, HTTP/2, messages and methods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::{ErrorReason, GetStatusRequest, HandshakeRequest, ListInstancesRequest};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tonic::Status;

use super::cancelled::Cancelled;
use super::hook::On;
use super::listening::Listening;
use super::{Defect, refusal};
use crate::exchange::Answer;

/// How long a heartbeat of a slow provider takes: less than the contract allows.
const A_MOMENT: Duration = Duration::from_millis(20);

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new(
            "socket-mode",
            "The provider leaves the mode of its socket to the umask.",
            &["TRN-01"],
        )
        .listening(Listening {
            mode: Some(0o755),
            ..Listening::default()
        }),
        one_authority(),
        newest_connection(),
        Defect::new(
            "few-calls",
            "The provider serves 32 calls at a time, and refuses more.",
            &["TRN-05"],
        )
        .call::<GetStatusRequest, _>({
            let free = Arc::new(Semaphore::new(32));
            move |call, next| {
                let free = Arc::clone(&free);
                async move {
                    let Ok(_permit) = free.try_acquire() else {
                        let text = "32 calls are in flight";
                        return Answer::failed(refusal(ErrorReason::Overloaded, text));
                    };
                    sleep(A_MOMENT).await;
                    next.serve(call).await
                }
            }
        }),
        Defect::new(
            "small-messages",
            "The provider names 4 MiB at handshake, and its library refuses messages above 1 MiB.",
            &["TRN-06"],
        )
        .around(On::Every, |call, next| async move {
            if call.largest() > 1 << 20 {
                let text = "received message larger than max";
                return Answer::failed(Status::resource_exhausted(text));
            }
            next.serve(call).await
        }),
        Defect::new(
            "endless-messages",
            "The provider reads a message of any size into memory.",
            &["TRN-07"],
        )
        .call::<GetStatusRequest, _>(|call, next| next.serve(call.with(&GetStatusRequest {}))),
        Defect::new(
            "strict-fields",
            "The provider refuses a message with a field that it does not know.",
            // The large message of TRN-06 is one of such a field.
            &["TRN-06", "TRN-08"],
        )
        .call::<GetStatusRequest, _>(|call, next| async move {
            if call.largest() > 0 {
                let text = "unknown field 1000";
                return Answer::failed(refusal(ErrorReason::InvalidRequest, text));
            }
            next.serve(call).await
        }),
        Defect::new(
            "unknown-method",
            "The provider answers INTERNAL to a method that it does not know.",
            &["TRN-09"],
        )
        .around(On::UnknownMethod, |_, _| async {
            Answer::failed(Status::internal("no such method"))
        }),
        Defect::new(
            "unknown-service",
            "The provider answers UNKNOWN to a service that it does not know.",
            &["TRN-10"],
        )
        .around(On::UnknownService, |_, _| async {
            Answer::failed(Status::unknown("no such service"))
        }),
        Defect::new(
            "closes-idle",
            "The provider closes a connection on which nothing came for 800 ms.",
            &["TRN-11"],
        )
        // A batch that was cut off may be in progress still, and is sent again a second later.
        .by_chance(&["RTE-09"])
        .listening(Listening {
            idle: Some(Duration::from_millis(800)),
            ..Listening::default()
        }),
        cancelled_lock(),
        Defect::new(
            "refuses-tracing",
            "The provider refuses a call with a traceparent.",
            &["TRN-13"],
        )
        .call::<GetStatusRequest, _>(|call, next| async move {
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
    let cache = Arc::new(tokio::sync::Mutex::new(()));
    let lock = Arc::clone(&cache);
    Defect::new(
        "lock-while-sent",
        "The provider holds the lock of its cache until a list is sent.",
        &["TRN-14"],
    )
    .call::<ListInstancesRequest, _>(move |call, next| {
        let cache = Arc::clone(&cache);
        async move {
            let held = cache.lock_owned().await;
            next.serve(call).await.holding(held)
        }
    })
    .call::<GetStatusRequest, _>(move |call, next| {
        let lock = Arc::clone(&lock);
        async move {
            let _held = lock.lock_owned().await;
            next.serve(call).await
        }
    })
}

fn one_authority() -> Defect {
    let name = "one-authority";
    let sentence = "The provider serves calls to the authority \"localhost\" alone.";
    Defect::new(name, sentence, &["TRN-02"]).around(On::Every, |call, next| async move {
        let authority = call.head.uri.authority().map(ToString::to_string);
        if authority.is_some_and(|authority| authority != "localhost") {
            return Answer::failed(Status::unimplemented("no such host"));
        }
        next.serve(call).await
    })
}

fn newest_connection() -> Defect {
    let newest = Arc::new(Mutex::new(0));
    let known = Arc::clone(&newest);
    Defect::new(
        "newest-connection",
        "The provider takes a handshake on another connection for the end of the older ones.",
        &["TRN-04", "TRN-11", "TRN-14"],
    )
    .call::<HandshakeRequest, _>(move |call, next| {
        *newest.lock() = call.connection();
        next.serve(call)
    })
    .call::<GetStatusRequest, _>(move |call, next| {
        let is_old = call.connection() < *known.lock();
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
    let locked: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    Defect::new(
        "cancelled-lock",
        "A call that is cancelled leaves the lock of its connection taken.",
        &["TRN-12"],
    )
    .call::<GetStatusRequest, _>(move |call, next| {
        let (locked, connection) = (Arc::clone(&locked), call.connection());
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

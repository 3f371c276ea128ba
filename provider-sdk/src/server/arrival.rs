//! The outermost layer of a server: it reads a call's headers before tonic does, and corrects tonic's own refusals after.
//!
//! `calls` takes the deadline and the trace of a call from here. tonic refuses a message that is too large and a method
//! that it does not know with statuses that the contract does not use, so that the controller would have to call the
//! outcome unknown: this layer gives them the contract's reason. A status of a handler passes unchanged.

use std::time::Duration;

use http::{HeaderMap, Request, Response};
use tokio::time::Instant;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::util::{MapRequestLayer, MapResponseLayer};

use crate::Error;

/// When a call came in, until when its caller waits, and the trace it belongs to.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrival {
    pub(super) deadline: Option<Instant>,
    pub(super) traceparent: Option<String>,
}

impl Arrival {
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get().cloned().unwrap_or_default()
    }

    fn read(headers: &HeaderMap, now: Instant) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            deadline: text("grpc-timeout")
                .and_then(grpc_timeout)
                .and_then(|timeout| now.checked_add(timeout)),
            // W3C's form is 55 characters; a later version may be longer, but not endless.
            traceparent: text("traceparent")
                .filter(|value| value.len() <= 128)
                .map(str::to_owned),
        }
    }
}

/// Wraps all services. The deadline is read before tonic starts its own timer for it, so that ours
/// fires first: tonic would report CANCELLED.
pub(super) fn layered(mut routes: Routes) -> Routes {
    let inner = routes.axum_router_mut();
    *inner = std::mem::take(inner)
        .layer(MapResponseLayer::new(in_contract_words))
        .layer(MapRequestLayer::new(noted));
    routes
}

fn noted<B>(mut request: Request<B>) -> Request<B> {
    let arrival = Arrival::read(request.headers(), Instant::now());
    request.extensions_mut().insert(arrival);
    request
}

/// tonic refuses some calls by itself, with codes that the contract does not use or without our
/// reason; to the controller those are an unknown outcome.
fn in_contract_words<B: Default>(response: Response<B>) -> Response<B> {
    let headers = response.headers();
    // Only a call that failed before its first message has its status among the headers.
    let Some(code) = headers
        .get(Status::GRPC_STATUS)
        .map(|code| Code::from_bytes(code.as_bytes()))
    else {
        return response;
    };
    let spoken = |name| headers.get(name).is_some_and(|value| !value.is_empty());
    if spoken("grpc-status-details-bin") {
        return response;
    }
    let error = match code {
        Code::OutOfRange => Error::invalid_request(
            "the request is larger than this provider accepts; stay below \
             HandshakeResponse.max_receive_message_bytes",
        ),
        Code::Unimplemented if !spoken("grpc-message") => {
            Error::capability_disabled("this provider does not serve the method that was called")
        }
        _ => return response,
    };
    error.into_status().into_http()
}

/// The value of a `grpc-timeout` header: up to eight digits and a unit.
fn grpc_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_hours(amount)),
        "M" => Some(Duration::from_mins(amount)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        for (value, expected) in [
            ("1H", Some(Duration::from_hours(1))),
            ("2M", Some(Duration::from_mins(2))),
            ("3S", Some(Duration::from_secs(3))),
            ("300m", Some(Duration::from_millis(300))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("5n", Some(Duration::from_nanos(5))),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1x", None),
            ("1é", None),
        ] {
            assert_eq!(grpc_timeout(value), expected, "{value:?}");
        }
    }
}

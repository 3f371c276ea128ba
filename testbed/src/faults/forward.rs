//! One request: recorded, looked up in the rules, passed on, answered.

use std::{io, sync::Arc};

use bytes::Bytes;
use http::{
    HeaderMap, Request, Response, StatusCode,
    header::{self, AUTHORIZATION, CONTENT_TYPE, HeaderName, RETRY_AFTER},
};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{
    State,
    record::{Outcome, Recorded},
    rule::Fault,
    watches::End,
};
use crate::{ControlPlane, Result};

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// The way to the API server.
pub(super) struct Forwarder {
    as_user: Client,
    as_nobody: Client,
}

impl Forwarder {
    pub(super) fn new(plane: &ControlPlane, user: &str, group: Option<&str>) -> Result<Self> {
        Ok(Self {
            as_user: plane.client_of(user, group)?,
            as_nobody: plane.anonymous_client()?,
        })
    }

    async fn send(&self, request: &Recorded, uri: http::Uri) -> io::Result<Response<Body>> {
        // With a certificate the API server would not look at the token.
        let client = match request.headers.get(AUTHORIZATION) {
            Some(_) => &self.as_nobody,
            None => &self.as_user,
        };
        let mut passed = Request::new(Body::from(request.body.to_vec()));
        *passed.method_mut() = request.method.clone();
        *passed.uri_mut() = uri;
        *passed.headers_mut() = end_to_end(request.headers.clone());
        client.send(passed).await.map_err(io::Error::other)
    }
}

impl State {
    async fn send(&self, request: &Recorded, uri: http::Uri) -> io::Result<Response<Body>> {
        let forwarder = Arc::clone(&self.forwarder.read());
        forwarder.send(request, uri).await
    }
}

/// Headers without those that belong to one connection.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    for name in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        KEEP_ALIVE,
    ] {
        headers.remove(name);
    }
    headers
}

/// Answers a request. An error closes the connection without an answer.
pub(super) async fn answer(state: &State, request: Request<Incoming>) -> io::Result<Answer> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mut request = Recorded::new(&parts, body);
    let fault = state.rules.fault_for(&request);
    request.faulted = fault.is_some();
    let entry = state.recorder.add(request.clone());

    let answer = act(state, &request, parts.uri, fault).await;
    state.recorder.set_outcome(
        entry,
        match &answer {
            Ok(answer) => Outcome::Answered(answer.status()),
            Err(_) => Outcome::Lost,
        },
    );
    answer
}

async fn act(
    state: &State,
    request: &Recorded,
    uri: http::Uri,
    fault: Option<Fault>,
) -> io::Result<Answer> {
    let mut end = None;
    match fault {
        None => {}
        Some(Fault::Status {
            code,
            reason,
            message,
            retry_after,
        }) => return status_answer(code, reason, &message, retry_after),
        Some(Fault::CutWatch { after, cut }) => end = Some(End { after, cut }),
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::Disconnect) => return Err(io::Error::other("disconnected by a rule")),
        Some(Fault::LoseAnswer) => {
            let answer = state.send(request, uri).await?;
            // The effect is there when the answer is, not before.
            let _ = answer.into_body().collect().await;
            return Err(io::Error::other("answer lost by a rule"));
        }
    }
    let answer = state.send(request, uri).await?;
    let (mut parts, body) = answer.into_parts();
    let body = if request.is_watch() && parts.status == StatusCode::OK {
        parts.headers = end_to_end(parts.headers);
        let events = state.watches.stream(request.path.clone(), body, end);
        BodyExt::boxed_unsync(StreamBody::new(events))
    } else {
        let length = parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers = end_to_end(parts.headers);
        parts
            .headers
            .extend(length.map(|length| (header::CONTENT_LENGTH, length)));
        body.map_err(io::Error::other).boxed_unsync()
    };
    Ok(Response::from_parts(parts, body))
}

/// The last event of a watch whose version is too old.
pub(super) fn expired_event() -> Bytes {
    let status = status_body(410, "Expired", "too old resource version", None);
    let event = json!({"type": "ERROR", "object": status});
    format!("{event}\n").into()
}

fn status_answer(
    code: u16,
    reason: &str,
    message: &str,
    retry_after: Option<u32>,
) -> io::Result<Answer> {
    let body = status_body(code, reason, message, retry_after).to_string();
    let mut answer = Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        answer = answer.header(RETRY_AFTER, seconds);
    }
    let body = Full::from(body)
        .map_err(|never| match never {})
        .boxed_unsync();
    answer.body(body).map_err(io::Error::other)
}

/// The status as the API server writes it: a refusal of content has causes, a patch that does not apply has none.
fn status_body(code: u16, reason: &str, message: &str, retry_after: Option<u32>) -> Value {
    let mut details = retry_after.map_or_else(|| json!({}), |s| json!({"retryAfterSeconds": s}));
    if code == 422 && !message.starts_with("the server rejected our request") {
        details["causes"] = json!([{"message": message}]);
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": details,
    })
}

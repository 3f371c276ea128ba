//! A scripted API server for tests: one closure answers every request, on the paused clock.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, channel::mpsc, future::BoxFuture, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::service_fn;

use super::{client::ANSWER_TIMEOUT, error::AnswerTimeout, metrics::is_watch};

/// The body of an answer.
pub(crate) type ScriptedAnswer = Response<BoxBody<Bytes, Infallible>>;

/// A client whose requests go to `answer`, with the time limit of every client.
pub(crate) fn client<F>(answer: F) -> Client
where
    F: Fn(Request<Body>) -> BoxFuture<'static, ScriptedAnswer> + Send + 'static,
{
    Client::new(
        service_fn(move |request: Request<Body>| {
            let limit = if is_watch(request.uri()) {
                Duration::MAX
            } else {
                ANSWER_TIMEOUT
            };
            let answer = answer(request);
            async move {
                let answered = tokio::time::timeout(limit, answer).await;
                answered.map_err(|_| AnswerTimeout(limit))
            }
        }),
        "default",
    )
}

/// A whole JSON answer.
pub(crate) fn json(code: u16, body: &Value) -> ScriptedAnswer {
    let body = Full::new(Bytes::from(body.to_string())).boxed();
    Response::builder().status(code).body(body).unwrap()
}

/// A `metav1.Status` of a failure.
pub(crate) fn refusal(code: u16, reason: &str) -> ScriptedAnswer {
    json(code, &status(code, reason))
}

/// The refusal of content by validation or by a policy, in its words.
pub(crate) fn refused(message: &str) -> ScriptedAnswer {
    let mut status = status(422, "Invalid");
    status["message"] = json!(message);
    status["details"] = json!({"causes": [{"message": message}]});
    json(422, &status)
}

/// The same as [`refusal`] as an object, as it comes in a watch.
pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": format!("scripted {reason}"),
    })
}

/// A watch that sends `events` and then ends.
pub(crate) fn watch(events: Vec<Value>) -> ScriptedAnswer {
    streaming(stream::iter(events))
}

/// A watch that sends what the sender gets, until the sender is dropped.
pub(crate) fn live_watch() -> (mpsc::UnboundedSender<Value>, ScriptedAnswer) {
    let (sender, receiver) = mpsc::unbounded();
    (sender, streaming(receiver))
}

fn streaming(events: impl Stream<Item = Value> + Send + Sync + 'static) -> ScriptedAnswer {
    let frames = events.map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))));
    Response::new(BoxBody::new(StreamBody::new(frames)))
}

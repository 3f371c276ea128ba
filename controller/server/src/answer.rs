//! Answers in the words of Go's `net/http` and of the API machinery.

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Bytes};
use serde::Serialize;
use serde_json::Value;

/// The answer to a request, with its whole body.
pub type Answer = Response<Full<Bytes>>;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// The content type of JSON.
pub const JSON: &str = "application/json";

/// The last answer of its connection.
pub fn last(mut answer: Answer) -> Answer {
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(header::CONNECTION, close);
    answer
}

/// `body` as it is.
pub fn body(code: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}

/// The answer to HEAD: the length of the body, and no body. HTTP/2 does not leave it away by itself.
pub(super) fn without_body(answer: Answer) -> Answer {
    let (mut head, body) = answer.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Full::default())
}

/// 200 with a text.
pub(super) fn text(text: impl Into<Bytes>) -> Answer {
    body(StatusCode::OK, TEXT, text)
}

/// An error in plain text. It ends with a newline, as that of Go's `http.Error` does.
pub fn error(code: StatusCode, text: &str) -> Answer {
    body(code, TEXT, format!("{text}\n"))
}

/// Anything that is not served (HTTP-1).
pub fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// A method that a path does not know.
pub fn wrong_method() -> Answer {
    error(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed")
}

/// Too many requests of this kind are in flight: the client may come again.
pub(super) fn overloaded() -> Answer {
    let text = "Too many requests, please try again later.";
    let mut answer = error(StatusCode::TOO_MANY_REQUESTS, text);
    let seconds = HeaderValue::from_static("1");
    answer.headers_mut().insert(header::RETRY_AFTER, seconds);
    answer
}

/// 200 with JSON.
pub(super) fn json(value: &Value) -> Answer {
    body(StatusCode::OK, JSON, format!("{value}\n"))
}

/// `metav1.Status`, its fields in the API machinery's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    #[serde(rename = "status")]
    outcome: &'static str,
    message: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Empty>,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

/// A `metav1.Status` of a failure.
pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> Answer {
    let status = Status {
        kind: "Status",
        api_version: "v1",
        metadata: Empty {},
        outcome: "Failure",
        message,
        reason,
        details: (code == StatusCode::FORBIDDEN).then_some(Empty {}),
        code: code.as_u16(),
    };
    // Texts and a number: nothing that JSON cannot hold.
    let text = serde_json::to_string(&status).unwrap_or_default();
    body(code, JSON, format!("{text}\n"))
}

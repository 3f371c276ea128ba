//! Answers in the words of Go's `net/http` and of the API machinery.

use axum::{
    body::Bytes,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// The answer to a request.
pub type Answer = Response;

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
    (code, [(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

/// 200 with a text.
pub(super) fn text(text: impl Into<String>) -> Answer {
    text.into().into_response()
}

/// An error in plain text. It ends with a newline, as that of Go's `http.Error` does.
pub fn error(code: StatusCode, text: &str) -> Answer {
    (code, format!("{text}\n")).into_response()
}

/// Anything that is not served (HTTP-1).
pub fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// A method that a path does not know.
pub fn wrong_method() -> Answer {
    error(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed")
}

/// A `metav1.Status` of a failure.
pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> Answer {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    body(code, JSON, format!("{status}\n"))
}

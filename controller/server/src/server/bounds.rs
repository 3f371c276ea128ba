//! Requests that are refused before anything looks at them: no page has such a path or method, and both would be
//! remembered, logged or sent on.

use http::{Method, Request, StatusCode};

use super::super::answer::{self, Answer};

/// Of path and query.
const URI: usize = 1024;

/// Those of HTTP that a page may tell apart.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::PUT,
    Method::POST,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

/// The refusal of such a request.
pub(super) fn refuse<B>(request: &Request<B>) -> Option<Answer> {
    if !METHODS.contains(request.method()) {
        return Some(answer::wrong_method());
    }
    let uri = request.uri();
    if uri.path().len() + uri.query().map_or(0, str::len) > URI {
        let text = "414 URI too long";
        return Some(answer::error(StatusCode::URI_TOO_LONG, text));
    }
    None
}

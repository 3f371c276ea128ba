//! A request before it is built.

use http::{Method, Request, header};
use kube::client::Body;
use serde::Serialize;

use super::JSON;
use crate::error::ApiError;

/// Method, path, query, headers and body of a request.
pub(super) struct ApiRequest<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    query: Vec<(&'static str, String)>,
    accept: &'static str,
    /// With its media type.
    body: Option<(&'static str, Vec<u8>)>,
}

impl<'a> ApiRequest<'a> {
    pub(super) const fn new(method: Method, path: &'a str) -> Self {
        Self {
            method,
            path,
            query: Vec::new(),
            accept: JSON,
            body: None,
        }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Objects whose field has this value, if there is one.
    pub(super) fn selecting(self, selector: Option<(&str, &str)>) -> Self {
        match selector {
            Some((field, value)) => self.query("fieldSelector", format!("{field}={value}")),
            None => self,
        }
    }

    pub(super) const fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    pub(super) fn body(
        mut self,
        media_type: &'static str,
        body: &impl Serialize,
    ) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(body).map_err(|error| ApiError::Decode(error.to_string()))?;
        self.body = Some((media_type, body));
        Ok(self)
    }

    pub(super) fn build(self) -> Result<Request<Body>, ApiError> {
        let mut uri = self.path.to_owned();
        if !self.query.is_empty() {
            uri.push('?');
            let start = uri.len();
            uri = form_urlencoded::Serializer::for_suffix(uri, start)
                .extend_pairs(self.query)
                .finish();
        }
        let mut request = Request::builder()
            .method(self.method)
            .uri(uri)
            .header(header::ACCEPT, self.accept);
        let mut bytes = Vec::new();
        if let Some((media_type, body)) = self.body {
            request = request.header(header::CONTENT_TYPE, media_type);
            bytes = body;
        }
        request
            .body(Body::from(bytes))
            .map_err(|error| ApiError::Transport(error.to_string()))
    }
}

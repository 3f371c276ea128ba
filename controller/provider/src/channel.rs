//! Where calls go: the requests of one connection, whose answers are kept from a panic of tonic's.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::{body::Frame, client::conn::http2::SendRequest};
use tonic::{body::Body, metadata::MetadataMap};
use tower::Service;

const DETAILS: &str = "grpc-status-details-bin";

/// The requests of a connection. It drops `grpc-status-details-bin` where that is no base64: tonic's
/// `Status::from_header_map` expects that it is, so a provider could end whatever task calls it.
#[derive(Clone, Debug)]
pub(super) struct Channel(SendRequest<Body>);

impl Channel {
    pub(super) const fn new(requests: SendRequest<Body>) -> Self {
        Self(requests)
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let response = self.0.send_request(request);
        Box::pin(async move {
            let mut response = response.await?;
            check(response.headers_mut());
            Ok(response.map(|body| Body::new(body.map_frame(check_frame))))
        })
    }
}

fn check_frame<T>(frame: Frame<T>) -> Frame<T> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            check(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

fn check(headers: &mut HeaderMap) {
    let Some(details) = headers.get(DETAILS) else {
        return;
    };
    let mut alone = HeaderMap::with_capacity(1);
    alone.insert(DETAILS, details.clone());
    let decodes = MetadataMap::from_headers(alone)
        .get_bin(DETAILS)
        .is_some_and(|value| value.to_bytes().is_ok());
    if !decodes {
        headers.remove(DETAILS);
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    #[test]
    fn details_that_are_no_base64_are_dropped_and_the_status_is_read() {
        let check_details = |details: &[u8], read: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-status", "8".parse().unwrap());
            headers.insert(DETAILS, http::HeaderValue::from_bytes(details).unwrap());
            check(&mut headers);
            let status = Status::from_header_map(&headers).unwrap();
            assert_eq!(status.code(), tonic::Code::ResourceExhausted);
            assert_eq!(status.details(), read);
        };
        check_details(b"aGk", b"hi");
        check_details(b"aGk=", b"hi");
        check_details(b"%%%", b"");
        check_details(b"a", b"");
        check_details(&[0xff, 0xfe], b"");
    }
}

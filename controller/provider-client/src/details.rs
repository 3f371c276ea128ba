//! Keeps a status away from tonic that it panics on, or that is too large.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Frame;
use tonic::{
    Status,
    body::Body,
    metadata::MetadataMap,
    transport::{Channel, Error},
};
use tower::Service;

const DETAILS: &str = "grpc-status-details-bin";
const STATUS: &str = "grpc-status";
/// Stands, with the bytes, in the place of a status that is too large.
const OVERSIZED: &str = "outrigger-oversized-status";
/// Bytes of headers or trailers with a status. Room for a message and all the details that the contract
/// allows, and then some.
const MAX_STATUS: usize = 64 << 10;
/// Bytes that one header counts beside its name and value (RFC 9113, section 6.5.2).
const AROUND: usize = 32;

/// A channel that drops `grpc-status-details-bin` where it is no base64. tonic's
/// `Status::from_header_map` expects that it is, so a provider could end whatever task calls it.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    channel: Channel,
}

impl Checked {
    pub(super) const fn new(channel: Channel) -> Self {
        Self { channel }
    }
}

impl Service<Request<Body>> for Checked {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let response = self.channel.call(request);
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

/// Why a status is not read, where it was too large.
pub(super) fn refusal(status: &Status) -> Option<String> {
    let bytes = status.metadata().get(OVERSIZED)?.to_str().ok()?;
    Some(format!(
        "its status has {bytes} bytes, more than the {MAX_STATUS} that are read; a message has at most \
         1 KiB and all details 4 KiB"
    ))
}

fn check(headers: &mut HeaderMap) {
    let sizes = headers.iter();
    let bytes: usize = sizes
        .map(|(name, value)| name.as_str().len() + value.len() + AROUND)
        .sum();
    if bytes > MAX_STATUS
        && let Some(status) = headers.get(STATUS).cloned()
    {
        headers.clear();
        headers.insert(STATUS, status);
        headers.insert(OVERSIZED, bytes.into());
        return;
    }
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

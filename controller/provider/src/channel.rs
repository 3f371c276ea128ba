//! Where calls go: the requests of one connection, with limits of sizes, and with answers that are kept from a panic of tonic's.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{HeaderMap, Uri, uri::PathAndQuery};
use http_body_util::BodyExt;
use hyper::{body::Frame, client::conn::http2::SendRequest};
use outrigger_api::{CONTROLLER_MAX_MESSAGE_BYTES, MethodRequest};
use tokio_stream::Stream;
use tonic::{Request, Status, Streaming, body::Body, client::Grpc, metadata::MetadataMap};
use tonic_prost::ProstCodec;
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

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
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

/// Makes a call with one answer.
pub(super) async fn client_streaming<M: MethodRequest>(
    channel: Channel,
    max_send: usize,
    request: Request<impl Stream<Item = M> + Send + 'static>,
) -> Result<M::Response, Status> {
    let mut client = client(channel, max_send).await?;
    let path = PathAndQuery::from_static(M::METHOD.path);
    let codec = ProstCodec::default();
    let response = client.client_streaming(request, path, codec).await?;
    Ok(response.into_inner())
}

/// Makes a call with a stream of answers.
pub(super) async fn server_streaming<M: MethodRequest>(
    channel: Channel,
    max_send: usize,
    request: Request<M>,
) -> Result<Streaming<M::Response>, Status> {
    let mut client = client(channel, max_send).await?;
    let path = PathAndQuery::from_static(M::METHOD.path);
    let codec = ProstCodec::default();
    let response = client.server_streaming(request, path, codec).await?;
    Ok(response.into_inner())
}

async fn client(channel: Channel, max_send: usize) -> Result<Grpc<Channel>, Status> {
    // The authority that every HTTP/2 server accepts; a path in it is refused by many.
    let origin = Uri::from_static("http://localhost");
    // Lists come in pages, and a batch whose answer is larger is asked about again in halves.
    let mut client = Grpc::with_origin(channel, origin)
        .max_decoding_message_size(CONTROLLER_MAX_MESSAGE_BYTES)
        .max_encoding_message_size(max_send);
    client
        .ready()
        .await
        .map_err(|error| Status::from_error(error.into()))?;
    Ok(client)
}

//! Between the socket and the provider: counts each call, and lets faults happen.
//!
//! It works on HTTP, below every type of the contract, since most faults are answers that typed
//! code cannot even express: a result that is missing, a reply that is too large, an error that no
//! provider sends on purpose.

mod count;
pub(crate) mod frames;
mod peek;
pub(crate) mod spoil;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes};
use outrigger_provider_sdk::BoxError;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::UdsConnectInfo;
use tower::Service;

use crate::cloud::Cloud;
use crate::faults::Method;
use count::{Counted, Ended};

/// A gRPC service with the faults and the counters of a [`Cloud`] in front.
#[derive(Debug, Clone)]
pub(crate) struct Faulty<S> {
    inner: S,
    cloud: Cloud,
}

impl<S> Faulty<S> {
    /// With those of this cloud.
    pub(crate) fn new(inner: S, cloud: Cloud) -> Self {
        Self { inner, cloud }
    }
}

impl<S, Q, A> Service<Request<Q>> for Faulty<S>
where
    S: Service<Request<Q>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    Q: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    Q::Error: Into<BoxError>,
    A: HttpBody<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // The clone that was polled ready serves the call.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let cloud = self.cloud.clone();
        Box::pin(async move {
            let Some(method) = Method::of_path(request.uri().path()) else {
                return Ok(inner.call(request).await?.map(Body::new));
            };
            let mut ended = Ended::cancelled_unless_said(cloud.clone(), method);
            let caller = caller(&request);
            let is_journalled = cloud.journal().is_some() && method.has_subjects();
            let (request, mut subjects) = if is_journalled || cloud.faults().need_subjects(method) {
                match peek::peek(method, request).await {
                    Ok(peeked) => peeked,
                    Err(status) => {
                        ended.with(status.code());
                        return Ok(status.into_http());
                    }
                }
            } else {
                (request, peek::Subjects::default())
            };
            let about = peek::about(method, &subjects);
            let items = subjects.items();
            let volumes = std::mem::take(&mut subjects.volumes);
            ended.began(caller, subjects);
            if let Err(error) = cloud.faults().interfere(method, &about, items).await {
                let status = error.to_status();
                ended.with(status.code());
                return Ok(status.into_http());
            }
            let response = inner.call(request).await?.map(Body::new);
            if cloud.faults().loses_reply(method, &about) {
                // Read to its end: a stream without a reader would end its handler early.
                let _ = frames::Answer::read(response.into_body()).await;
                let status = Status::unknown("the reply was lost");
                ended.with(status.code());
                return Ok(status.into_http());
            }
            if let Some(status) = Status::from_header_map(response.headers()) {
                ended.with(status.code());
                return Ok(response);
            }
            let (head, mut body) = response.into_parts();
            if cloud.faults().may_spoil(method) {
                body = match spoil::spoil(&cloud, method, &about, &volumes, body).await {
                    Ok(body) => body,
                    Err(status) => {
                        ended.with(status.code());
                        return Ok(status.into_http());
                    }
                };
            }
            Ok(Response::from_parts(
                head,
                Body::new(Counted::new(body, ended)),
            ))
        })
    }
}

/// Process id of the caller, where the connection is a Unix socket and the system knows it.
fn caller<Q>(request: &Request<Q>) -> Option<i32> {
    let info = request.extensions().get::<UdsConnectInfo>()?;
    info.peer_cred.as_ref()?.pid()
}

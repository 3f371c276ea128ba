//! Between the socket and the provider: counts each call, and lets faults happen.
//!
//! It works on HTTP, below every type of the contract, since most faults are answers that typed
//! code cannot even express: a result that is missing, a reply that is too large, an error that no
//! provider sends on purpose.

mod answer;
mod call;
mod count;

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

pub(crate) use answer::Answer;
pub(crate) use call::Call;

use crate::cloud::Cloud;
use crate::faults::{Asked, Method};
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
            match serve(inner, &cloud, method, request, &mut ended).await? {
                Ok(response) => match Status::from_header_map(response.headers()) {
                    Some(status) => {
                        ended.with(status.code());
                        Ok(response)
                    }
                    None => Ok(response.map(|body| Body::new(Counted::new(body, ended)))),
                },
                Err(status) => {
                    ended.with(status.code());
                    Ok(status.into_http())
                }
            }
        })
    }
}

/// Serves a call with its faults.
async fn serve<S, Q, A>(
    mut inner: S,
    cloud: &Cloud,
    method: Method,
    request: Request<Q>,
    ended: &mut Ended,
) -> Result<Result<Response<Body>, Status>, S::Error>
where
    S: Service<Request<Q>, Response = Response<A>>,
    Q: HttpBody<Data = Bytes> + From<Bytes>,
    A: HttpBody<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
{
    let caller = caller(&request);
    let faults = cloud.faults();
    let is_read = cloud.journal().is_some() || faults.concern(method);
    let (request, asked) = match method.shape().filter(|_| is_read) {
        Some(shape) => {
            let call = Call::read(request).await;
            let asked = shape.asked(call.first());
            (call.into_request(), asked)
        }
        None => (request, Asked::new()),
    };
    ended.began(caller, &asked);
    if let Err(error) = faults.interfere(method, &asked).await {
        return Ok(Err(error.to_status()));
    }
    let response = inner.call(request).await?.map(Body::new);
    if faults.loses_reply(method, &asked) {
        // Read to its end: a stream without a reader would end its handler early.
        let _ = Answer::of(response).await;
        return Ok(Err(Status::unknown("the reply was lost")));
    }
    if !faults.may_spoil(method) {
        return Ok(Ok(response));
    }
    let mut answer = Answer::of(response).await;
    faults.spoil(method, &asked, &mut answer);
    Ok(Ok(answer.into_response()))
}

/// Process id of the caller, where the connection is a Unix socket and the system knows it.
fn caller<Q>(request: &Request<Q>) -> Option<i32> {
    let info = request.extensions().get::<UdsConnectInfo>()?;
    info.peer_cred.as_ref()?.pid()
}

//! Stands in front of a correct provider, and makes the mistakes of a defect.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes};
use outrigger_provider_sdk::BoxError;
use tonic::Status;
use tonic::body::Body;
use tower::{Service, ServiceExt as _};

use super::Defect;
use super::exchange::{Around, Next, Serve};
use super::listening::Peer;
use crate::wire::{Answer, Call};

/// A gRPC service with a defect in front.
#[derive(Debug, Clone)]
pub(super) struct Defective<S> {
    inner: S,
    defect: Arc<Defect>,
}

impl<S> Defective<S> {
    pub(super) fn new(inner: S, defect: Arc<Defect>) -> Self {
        Self { inner, defect }
    }
}

impl<S, Q, A> Service<Request<Q>> for Defective<S>
where
    S: Service<Request<Q>, Response = Response<A>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    Q: HttpBody<Data = Bytes> + From<Bytes> + Send + 'static,
    A: HttpBody<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        if let Some(peer) = request.extensions().get::<Peer>() {
            let caller = peer.caller.clone();
            request.extensions_mut().insert(caller);
        }
        let path = request.uri().path();
        let hooks = self.defect.hooks.iter();
        let hooks = hooks.filter(|(on, _)| on.is_about(path));
        let hooks: Vec<Around> = hooks.map(|(_, around)| Arc::clone(around)).collect();
        let inner = self.inner.clone();
        Box::pin(async move {
            if hooks.is_empty() {
                return Ok(inner.oneshot(request).await?.map(Body::new));
            }
            let serve: Serve = Arc::new(move |call| {
                let served = inner.clone().oneshot(call.into_request());
                Box::pin(async move {
                    let served = served.await.map_err(Into::into);
                    match served {
                        Ok(response) => Answer::of(response.map(Body::new)).await,
                        Err(error) => Answer::failed(Status::from_error(error)),
                    }
                })
            });
            let call = Call::read(request).await;
            Ok(Next::new(hooks, serve).serve(call).await.into_response())
        })
    }
}

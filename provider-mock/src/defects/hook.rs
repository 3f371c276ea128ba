//! A call as a mistake sees it, and the way to the correct provider.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware;
use axum::response::Response;
use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use outrigger_api::METHODS;
use prost::Message;

use super::Defect;
use crate::connections::Peer;
use crate::exchange::{Answer, Call};
use crate::faults::Method;

/// The work of a mistake on a call.
pub(super) type Around = Arc<dyn Fn(Call, Next) -> BoxFuture<'static, Answer> + Send + Sync>;

/// The correct provider, as a function.
pub(super) type Serve = Arc<dyn Fn(Call) -> BoxFuture<'static, Answer> + Send + Sync>;

/// The calls that a mistake is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    /// Those of a method.
    Method(Method),
    /// `grpc.health.v1`.
    Health,
    /// Those of a method that is not of the contract, of a service that is.
    UnknownMethod,
    /// Those of a service that is not of the contract.
    UnknownService,
    /// All of the contract.
    Every,
}

impl On {
    pub(super) fn is_about(self, path: &str) -> bool {
        let method = Method::of_path(path);
        let service = |path: &'_ str| path.rsplit_once('/').map(|(service, _)| service.to_owned());
        let known_service = METHODS.iter().any(|one| service(one.path) == service(path));
        let is_health = path.starts_with("/grpc.health.v1.Health/");
        match self {
            Self::Method(own) => method == Some(own),
            Self::Every => method.is_some(),
            Self::Health => is_health,
            Self::UnknownMethod => method.is_none() && known_service,
            Self::UnknownService => !known_service && !is_health,
        }
    }
}

impl Call {
    /// The request of a call that has one.
    pub(super) fn message<M: Message + Default>(&self) -> M {
        M::decode(self.first()).unwrap_or_default()
    }

    /// The same call with another request.
    pub(super) fn with(mut self, message: &impl Message) -> Self {
        self.messages = vec![message.encode_to_vec()];
        self
    }

    /// Another call of the same caller.
    pub(super) fn other(&self, path: &'static str, request: &impl Message) -> Self {
        let mut call = self.clone().with(request);
        call.head.uri = Uri::from_static(path);
        // The patience of the caller is for its own call.
        let long = HeaderValue::from_static("30S");
        call.head.headers.insert("grpc-timeout", long);
        call
    }

    /// The other end of the connection that the call came on.
    pub(super) fn peer(&self) -> Option<&Peer> {
        self.head.extensions.get()
    }

    /// The number of its connection.
    pub(super) fn connection(&self) -> u64 {
        self.peer().map_or(0, |peer| peer.number)
    }
}

/// Everything behind a mistake: further ones of the same defect, then the correct provider.
#[derive(Clone)]
pub(super) struct Next {
    behind: Arc<[Around]>,
    at: usize,
    serve: Serve,
}

impl Next {
    pub(super) fn new(behind: Vec<Around>, serve: Serve) -> Self {
        Self {
            behind: behind.into(),
            at: 0,
            serve,
        }
    }

    /// Serves the call.
    pub(super) fn serve(mut self, call: Call) -> BoxFuture<'static, Answer> {
        match self.behind.get(self.at).cloned() {
            Some(around) => {
                self.at += 1;
                around(call, self)
            }
            None => (self.serve)(call),
        }
    }

    /// Serves a call without the mistake.
    pub(super) fn correct(&self, call: Call) -> BoxFuture<'static, Answer> {
        (self.serve)(call)
    }
}

/// Serves a call with a defect in front.
pub(super) async fn serve(
    State(defect): State<Arc<Defect>>,
    request: Request,
    inner: middleware::Next,
) -> Response {
    let path = request.uri().path();
    let hooks = defect.hooks.iter().filter(|(on, _)| on.is_about(path));
    let hooks: Vec<Around> = hooks.map(|(_, around)| Arc::clone(around)).collect();
    if hooks.is_empty() {
        return inner.run(request).await;
    }
    let serve: Serve = Arc::new(move |call| {
        let inner = inner.clone();
        Box::pin(async move { Answer::of(inner.run(call.into_request()).await).await })
    });
    let call = Call::read(request).await;
    Next::new(hooks, serve).serve(call).await.into_response()
}

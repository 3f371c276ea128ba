//! A call as a mistake sees it: its messages, and the way to the correct provider.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Request, Uri};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes};
use prost::Message;

use super::listening::Peer;
use crate::faults::Method;
use crate::wire::frames::{Answer, framed, messages};

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

impl From<Method> for On {
    fn from(method: Method) -> Self {
        Self::Method(method)
    }
}

impl On {
    pub(super) fn is_about(self, path: &str) -> bool {
        let method = Method::of_path(path);
        let is_health = path.starts_with("/grpc.health.v1.Health/");
        let of_service = |method: &Method| {
            let service = method.path();
            let service = service.strip_suffix(method.as_str());
            service.is_some_and(|service| path.starts_with(service))
        };
        let known_service = Method::ALL.iter().any(of_service);
        match self {
            Self::Method(wanted) => method == Some(wanted),
            Self::Every => method.is_some(),
            Self::Health => is_health,
            Self::UnknownMethod => method.is_none() && known_service,
            Self::UnknownService => !known_service && !is_health,
        }
    }
}

/// A call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) head: Parts,
    /// Of a call that was cancelled those that came before.
    pub(super) messages: Vec<Vec<u8>>,
}

impl Call {
    pub(super) async fn read<Q: HttpBody<Data = Bytes>>(request: Request<Q>) -> Self {
        let (head, body) = request.into_parts();
        let mut body = std::pin::pin!(body);
        let mut bytes = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            bytes.extend(frame.data_ref().into_iter().flatten());
        }
        let messages = messages(&bytes).map(<[u8]>::to_vec).collect();
        Self { head, messages }
    }

    pub(super) fn into_request<Q: From<Bytes>>(self) -> Request<Q> {
        Request::from_parts(self.head, Q::from(framed(&self.messages)))
    }

    /// The request of a call that has one.
    pub(super) fn message<M: Message + Default>(&self) -> M {
        let first = self.messages.first();
        let read = first.and_then(|bytes| M::decode(bytes.as_slice()).ok());
        read.unwrap_or_default()
    }

    /// The same call with another request.
    pub(super) fn with(mut self, message: &impl Message) -> Self {
        self.messages = vec![message.encode_to_vec()];
        self
    }

    /// Another call of the same caller.
    pub(super) fn other(&self, method: Method, message: &impl Message) -> Self {
        let mut call = self.clone().with(message);
        // A path of the contract is one of a URI.
        call.head.uri = Uri::try_from(method.path()).unwrap_or_default();
        // The patience of the caller is for its own call.
        let none = HeaderValue::from_static("30S");
        call.head.headers.insert("grpc-timeout", none);
        call
    }

    /// The number of its connection.
    pub(super) fn connection(&self) -> u64 {
        let peer = self.head.extensions.get::<Peer>();
        peer.map_or(0, |peer| peer.number)
    }

    /// The bytes of its largest message.
    pub(super) fn largest(&self) -> usize {
        let sizes = self.messages.iter().map(Vec::len);
        sizes.max().unwrap_or_default()
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

    /// Serves a call of the mistake's own, of any method.
    pub(super) fn correct(&self, call: Call) -> BoxFuture<'static, Answer> {
        (self.serve)(call)
    }
}

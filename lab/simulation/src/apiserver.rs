//! An API server in memory, small enough to be exact: it answers what the controller asks of kube-apiserver 1.36, in its
//! words, and `tests/apiserver.rs` holds it against the real one.
//!
//! ```text
//!  replica ─ connect() ─► faults ─► verbs ─► rules, patch ─► store ─► watch ─► replica
//!  scenario ─ create(), patch(), delete() … ──►┘                │
//!  oracle ◄──────────────────────────────────── take_writes() ◄─┘
//! ```
//!
//! Nothing in it depends on chance but by its seed, nor on time but by tokio's clock and the wall clock that it is given.
//! A request for something that it leaves out is answered with 501, so that no test takes it for the real one.

mod faults;
mod patch;
mod resource;
mod rules;
mod service;
mod shape;
mod status;
mod store;
mod verbs;
mod watch;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use fastrand::Rng;
use futures::{FutureExt, StreamExt, future::BoxFuture};
use http::{Method, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::Notify, time::sleep};
use tower::BoxError;

use self::{
    faults::{ConnectionLost, RequestFaults, WatchFaults},
    resource::Target,
    status::Status,
    store::Store,
    verbs::{Call, Registry, query},
    watch::Watch,
};
pub use self::{
    faults::{Delivery, Fault, FaultKind, Request},
    resource::Verb,
    store::{Change, Key},
};

/// The version that it calls itself.
const VERSION: &str = "v1.36.3";

/// The client of requests that the scenario makes itself.
const USER: &str = "user";

/// A request that may change an object, once it was carried out.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its client, and its object.
    pub request: Request,
    /// The HTTP status of its answer.
    pub code: u16,
    /// The change; none if nothing changed.
    pub change: Option<Arc<Change>>,
}

/// The API server. Clones share it.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Mutex<Shared>>,
    /// Wakes the watches.
    changed: Arc<Notify>,
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Where requests are on their way.
    network: Handle,
}

struct Shared {
    store: Store,
    rng: Rng,
    writes: Vec<Write>,
    request_faults: Option<RequestFaults>,
    watch_faults: Option<WatchFaults>,
}

impl ApiServer {
    /// A server with the namespaces of a new cluster. UIDs, cluster IPs and ports follow from `seed`; `wall` is its clock.
    /// Requests that are late travel on the runtime that this is called on, whatever becomes of that of their client.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(seed: u64, wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let this = Self {
            shared: Arc::new(Mutex::new(Shared {
                store: Store::default(),
                rng: Rng::with_seed(seed),
                writes: Vec::new(),
                request_faults: None,
                watch_faults: None,
            })),
            changed: Arc::default(),
            wall: Arc::new(wall),
            network: Handle::current(),
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            // It cannot fail: there is none yet.
            let _ = this.create("/api/v1/namespaces", &namespace);
        }
        this.take_writes();
        this
    }

    /// A connection of the client `name`, by which faults and writes know it.
    pub fn connect(&self, name: &str) -> Connection {
        Connection {
            server: self.clone(),
            client: name.into(),
        }
    }

    /// Calls `faults` for each request of a connection, to decide what happens to it.
    pub fn set_faults(&self, faults: impl FnMut(&Request) -> Fault + Send + 'static) {
        self.shared.lock().request_faults = Some(Box::new(faults));
    }

    /// Calls `faults` for each change that a watch is about to show.
    pub fn set_watch_faults(&self, faults: impl FnMut(&Request) -> Delivery + Send + 'static) {
        self.shared.lock().watch_faults = Some(Box::new(faults));
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.shared.lock().store.version()
    }

    /// Forgets all changes so far, as a compaction of etcd does: watches and pages of lists from before get 410.
    pub fn compact(&self) {
        self.shared.lock().store.compact();
        self.changed.notify_waiters();
    }

    /// All writes since the last call, in their order.
    pub fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.shared.lock().writes)
    }

    /// The object at `path`, as a user reads it.
    ///
    /// # Errors
    /// The `Status` of the answer, as with all of the requests below.
    pub fn get(&self, path: &str) -> Result<Value, Value> {
        self.ask(&Method::GET, path, "", &[])
    }

    /// All objects at `path`.
    pub fn list(&self, path: &str) -> Result<Vec<Value>, Value> {
        let mut list = self.ask(&Method::GET, path, "", &[])?;
        Ok(list["items"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default())
    }

    /// Makes an object in the collection at `path`.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value, Value> {
        self.ask(
            &Method::POST,
            path,
            "application/json",
            object.to_string().as_bytes(),
        )
    }

    /// Changes the object at `path` by a merge patch.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value, Value> {
        self.ask(
            &Method::PATCH,
            path,
            "application/merge-patch+json",
            patch.to_string().as_bytes(),
        )
    }

    /// Deletes the object at `path`; finalizers keep it.
    pub fn delete(&self, path: &str) -> Result<Value, Value> {
        self.ask(&Method::DELETE, path, "", &[])
    }

    fn ask(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: &[u8],
    ) -> Result<Value, Value> {
        let incoming = Incoming {
            method: method.clone(),
            path: path.to_owned(),
            query: Vec::new(),
            media_type: media_type.to_owned(),
            is_partial: false,
            body: Bytes::copy_from_slice(body),
        };
        match self.carry_out(USER, &incoming, None) {
            Ok(Served::Object(_, object)) => Ok(object),
            Ok(Served::Watch(_)) => Err(Status::left_out("watch without a connection").body),
            Err(status) => Err(status.body),
        }
    }

    /// Purpose and object of `incoming`.
    fn about(client: &str, incoming: &Incoming) -> Result<(Request, Target), Status> {
        let target = Target::of(&incoming.path)?;
        let is_watch = matches!(query(&incoming.query, "watch"), "true" | "1");
        let request = Request {
            client: client.to_owned(),
            verb: Verb::of(&incoming.method, &target, is_watch)?,
            resource: target.resource.plural,
            path: incoming.path.clone(),
        };
        Ok((request, target))
    }

    fn carry_out(
        &self,
        client: &str,
        incoming: &Incoming,
        past: Option<u64>,
    ) -> Result<Served, Status> {
        if incoming.path == "/version" {
            return Ok(Served::Object(
                200,
                json!({"major": "1", "minor": "36", "gitVersion": VERSION}),
            ));
        }
        let (request, target) = Self::about(client, incoming)?;
        if request.verb == Verb::Watch {
            let (pairs, is_partial) = (&incoming.query, incoming.is_partial);
            let watch = Watch::open(self.clone(), request, target, pairs, is_partial, past)?;
            return Ok(Served::Watch(Box::new(watch)));
        }
        let call = Call {
            verb: request.verb,
            target,
            query: &incoming.query,
            media_type: &incoming.media_type,
            body: &incoming.body,
            past,
        };
        let mut shared = self.shared.lock();
        let Shared {
            store, rng, writes, ..
        } = &mut *shared;
        let now = (self.wall)();
        let answer = Registry { store, rng, now }.answer(&call);
        let (code, change) = match &answer {
            Ok(answer) => (answer.code, answer.change.clone()),
            Err(status) => (status.code, None),
        };
        let has_changed = change.is_some();
        if request.verb.writes() {
            writes.push(Write {
                request,
                code,
                change,
            });
        }
        drop(shared);
        if has_changed {
            self.changed.notify_waiters();
        }
        let answer = answer?;
        let body = if incoming.is_partial && answer.body["kind"] != "Status" {
            partial(&answer.body)
        } else {
            answer.body
        };
        Ok(Served::Object(answer.code, body))
    }

    /// Decides what happens to a request, and lets it happen.
    async fn serve(
        self,
        client: Arc<str>,
        incoming: Incoming,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let mut fault = Fault::default();
        if let Ok((request, _)) = Self::about(&client, &incoming)
            && let Some(faults) = &mut self.shared.lock().request_faults
        {
            fault = faults(&request);
        }
        let network = self.network.clone();
        let carry_out = async move {
            let past = match fault.kind {
                FaultKind::RequestLost => return Err(ConnectionLost),
                FaultKind::Refused(code) => return Ok(refusal(code, &incoming)),
                FaultKind::Past(version) => Some(version),
                FaultKind::None | FaultKind::AnswerLost => None,
            };
            let served = self.carry_out(&client, &incoming, past);
            match fault.kind {
                FaultKind::AnswerLost => Err(ConnectionLost),
                _ => Ok(response(served)),
            }
        };
        let answer = if fault.before.is_zero() {
            carry_out.await
        } else {
            let on_its_way = async move {
                sleep(fault.before).await;
                carry_out.await
            };
            // It arrives even if its client is gone by then.
            network.spawn(on_its_way).await?
        };
        if !fault.after.is_zero() {
            sleep(fault.after).await;
        }
        Ok(answer?)
    }
}

/// The body of an answer; that of a watch comes line by line.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// A client's way to the server, in the place of a connection.
#[derive(Clone)]
pub struct Connection {
    server: ApiServer,
    client: Arc<str>,
}

impl tower::Service<http::Request<Body>> for Connection {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (server, client) = (self.server.clone(), Arc::clone(&self.client));
        async move {
            let (parts, body) = request.into_parts();
            let header = |name| {
                let value = parts.headers.get(name);
                value
                    .and_then(|value| value.to_str().ok())
                    .unwrap_or_default()
                    .to_owned()
            };
            let query = parts.uri.query().unwrap_or_default().as_bytes();
            let incoming = Incoming {
                path: parts.uri.path().to_owned(),
                query: form_urlencoded::parse(query).into_owned().collect(),
                media_type: header(header::CONTENT_TYPE),
                is_partial: header(header::ACCEPT).contains("as=PartialObjectMetadata"),
                body: body.collect().await?.to_bytes(),
                method: parts.method,
            };
            server.serve(client, incoming).await
        }
        .boxed()
    }
}

/// A request as it was sent.
struct Incoming {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    media_type: String,
    /// True if metadata alone is wanted.
    is_partial: bool,
    body: Bytes,
}

enum Served {
    Object(u16, Value),
    Watch(Box<Watch>),
}

/// The metadata alone.
fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
    })
}

/// A refusal that is no matter of the object.
fn refusal(code: u16, incoming: &Incoming) -> Response<AnswerBody> {
    let text = match code {
        // It stands before the rest of the real one, and writes no `Status`.
        429 => Some("Too many requests, please try again later.\n"),
        503 => Some("apiserver not ready\n"),
        _ => None,
    };
    if let Some(text) = text {
        let mut response = Response::new(whole(text.to_owned()));
        *response.status_mut() = status_code(code);
        let seconds = header::HeaderValue::from_static("1");
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
        return response;
    }
    let target = Target::of(&incoming.path).ok().filter(|_| code == 409);
    let status = target.map_or_else(
        || Status::refusal(code),
        |target| Status::modified(target.resource, &target.name),
    );
    response(Err(status))
}

fn response(served: Result<Served, Status>) -> Response<AnswerBody> {
    let (code, body) = match served {
        Ok(Served::Watch(watch)) => {
            let frames = watch
                .lines()
                .map(|line| line.map(Frame::data).map_err(Into::into));
            (200, StreamBody::new(frames).boxed_unsync())
        }
        Ok(Served::Object(code, object)) => (code, whole(object.to_string())),
        Err(status) => (status.code, whole(status.body.to_string())),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status_code(code);
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn whole(text: String) -> AnswerBody {
    Full::from(text)
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// All codes here have three digits.
fn status_code(code: u16) -> http::StatusCode {
    http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR)
}

//! A scripted provider.

#![allow(
    clippy::expect_used,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

mod load_balancers;
mod routes_and_volumes;

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use outrigger_api::v1::{
    self,
    instances_service_server::{InstancesService, InstancesServiceServer},
    load_balancers_service_server::LoadBalancersServiceServer,
    node_sets_service_server::NodeSetsServiceServer,
    provider_service_server::{ProviderService, ProviderServiceServer},
    routes_service_server::RoutesServiceServer,
    volumes_service_server::VolumesServiceServer,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::{
    io::{copy_bidirectional, duplex},
    task::JoinSet,
    time::sleep,
};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, body::Body, transport::Server};
use tonic_types::{ErrorDetails, StatusExt, pb};
use tower::ServiceBuilder;

use crate::{ByteStream, Connect, Connecting};
use load_balancers::{Messages, Method};

pub use load_balancers::{Balancers, Step, ready, taken};
pub use routes_and_volumes::{FakeRoutes, FakeVolumes, done, gone, in_zone, volume_outcome};

type Bend = Arc<dyn Fn(http::Response<Body>) -> http::Response<Body> + Send + Sync>;

/// The provider's reply to one call.
pub enum Reply<T> {
    Say(T),
    Fail(Status),
    After(Duration, Box<Self>),
    Hang,
    Panic,
}

impl<T> Reply<T> {
    async fn play(mut self) -> Result<Response<T>, Status> {
        loop {
            match self {
                Self::Say(answer) => return Ok(Response::new(answer)),
                Self::Fail(status) => return Err(status),
                Self::After(time, then) => {
                    sleep(time).await;
                    self = *then;
                }
                Self::Hang => std::future::pending().await,
                Self::Panic => panic!("as scripted"),
            }
        }
    }
}

/// A deliberate error.
pub fn refusal(code: Code, reason: &str, retry_after: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, outrigger_api::ERROR_DOMAIN, []);
    if let Some(after) = retry_after {
        details.set_retry_info(Some(after));
    }
    Status::with_error_details(code, format!("because of {reason}"), details)
}

/// The refusal, with an effect: the annotation `key` is removed.
pub fn with_effects(refusal: &Status, key: &str) -> Status {
    let effects = v1::KubernetesEffects {
        remove_annotations: vec![key.to_owned()],
        ..v1::KubernetesEffects::default()
    };
    let mut details = pb::Status::decode(refusal.details()).unwrap();
    details.details.push(prost_types::Any {
        type_url: "type.googleapis.com/cloudprovider.v1.KubernetesEffects".to_owned(),
        value: effects.encode_to_vec(),
    });
    let bytes = details.encode_to_vec();
    Status::with_details(refusal.code(), refusal.message(), bytes.into())
}

pub fn found(node: &v1::Node) -> v1::InstanceResult {
    result(
        &node.name,
        v1::instance_result::Outcome::Found(v1::Instance {
            provider_id: format!("fake://{}", node.name),
            instance_type: "m1".into(),
            zone: "z1".into(),
            ..v1::Instance::default()
        }),
    )
}

pub fn result(name: &str, outcome: v1::instance_result::Outcome) -> v1::InstanceResult {
    v1::InstanceResult {
        key: name.into(),
        outcome: Some(outcome),
        effects: None,
    }
}

pub fn handshake() -> v1::HandshakeResponse {
    v1::HandshakeResponse {
        minor: 1,
        provider_name: "fake".into(),
        provider_version: "v0".into(),
        boot_id: "boot-1".into(),
        capabilities: Some(v1::Capabilities {
            instances: Some(v1::InstancesCapability {
                list: true,
                ..v1::InstancesCapability::default()
            }),
            ..v1::Capabilities::default()
        }),
        ..v1::HandshakeResponse::default()
    }
}

pub fn status(readiness: v1::Readiness) -> v1::GetStatusResponse {
    v1::GetStatusResponse {
        readiness: readiness.into(),
        ..v1::GetStatusResponse::default()
    }
}

/// The id in [`Fake`] for an answer to `GetStatus` without one. An empty id stands for that of the handshake.
pub const NO_BOOT_ID: &str = "none";

/// The provider's process and its socket.
pub struct Fake {
    listens: AtomicBool,
    pub dials: AtomicUsize,
    boot_id: Mutex<String>,
    pub handshake: Method<v1::HandshakeRequest, v1::HandshakeResponse>,
    pub status: Method<v1::GetStatusRequest, v1::GetStatusResponse>,
    pub batch: Method<v1::BatchGetInstancesRequest, v1::BatchGetInstancesResponse>,
    pub in_flight: AtomicUsize,
    pub most_in_flight: AtomicUsize,
    on_list: Mutex<Vec<v1::ListInstancesResponse>>,
    pub balancers: Balancers,
    pub routes: FakeRoutes,
    pub volumes: FakeVolumes,
    bend: Mutex<Bend>,
    wires: Mutex<JoinSet<()>>,
    /// Ends the current connections in good order.
    ending: Mutex<CancellationToken>,
}

/// Finds all nodes.
fn find_all(request: &v1::BatchGetInstancesRequest) -> Reply<v1::BatchGetInstancesResponse> {
    let results = request.items.iter().map(found).collect();
    Reply::Say(v1::BatchGetInstancesResponse { results })
}

impl Fake {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            listens: AtomicBool::new(true),
            dials: AtomicUsize::new(0),
            boot_id: Mutex::default(),
            handshake: Method::new(|_| Reply::Say(handshake())),
            status: Method::new(|_| Reply::Say(status(v1::Readiness::Ready))),
            batch: Method::new(find_all),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            on_list: Mutex::default(),
            balancers: Balancers::default(),
            routes: FakeRoutes::default(),
            volumes: Method::new(|_| Reply::Say(in_zone("z"))),
            bend: Mutex::new(Arc::new(|response| response)),
            wires: Mutex::default(),
            ending: Mutex::default(),
        })
    }

    /// Answers the handshake with a changed [`handshake`].
    pub fn introduce(&self, change: impl Fn(&mut v1::HandshakeResponse) + Send + Sync + 'static) {
        self.handshake.on(move |_| {
            let mut answer = handshake();
            change(&mut answer);
            Reply::Say(answer)
        });
    }

    pub fn answer_nodes(&self) {
        self.batch.on(find_all);
    }

    pub fn on_list(&self, messages: Vec<v1::ListInstancesResponse>) {
        *self.on_list.lock() = messages;
    }

    /// Changes responses on their way out.
    pub fn bend(
        &self,
        bend: impl Fn(http::Response<Body>) -> http::Response<Body> + Send + Sync + 'static,
    ) {
        *self.bend.lock() = Arc::new(bend);
    }

    /// kill -9: connections break, and no process listens.
    pub fn kill(&self) {
        self.listens.store(false, Ordering::Relaxed);
        self.wires.lock().abort_all();
    }

    /// A library's graceful stop, or a connection that is old: GOAWAY. Calls in flight go on.
    pub fn go_away(&self) {
        std::mem::take(&mut *self.ending.lock()).cancel();
    }

    pub fn restart(&self) {
        self.listens.store(true, Ordering::Relaxed);
    }

    pub fn dials(&self) -> usize {
        self.dials.load(Ordering::Relaxed)
    }

    pub fn calls(&self) -> usize {
        self.batch.calls().len()
    }

    fn accept(self: &Arc<Self>) -> io::Result<Box<dyn ByteStream>> {
        self.dials.fetch_add(1, Ordering::Relaxed);
        if !self.listens.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, mut near_end) = duplex(1 << 16);
        let (mut far_end, far) = duplex(1 << 16);
        let bend = Arc::clone(&*self.bend.lock());
        let serve = Server::builder()
            .layer(
                ServiceBuilder::new()
                    .map_response(move |response| bend(response))
                    .into_inner(),
            )
            .add_service(ProviderServiceServer::from_arc(Arc::clone(self)))
            .add_service(
                InstancesServiceServer::from_arc(Arc::clone(self))
                    .max_decoding_message_size(64 << 20)
                    .max_encoding_message_size(64 << 20),
            )
            .add_service(
                LoadBalancersServiceServer::from_arc(Arc::clone(self))
                    .max_decoding_message_size(64 << 20),
            )
            .add_service(
                NodeSetsServiceServer::from_arc(Arc::clone(self))
                    .max_decoding_message_size(64 << 20),
            )
            .add_service(RoutesServiceServer::from_arc(Arc::clone(self)))
            .add_service(VolumesServiceServer::from_arc(Arc::clone(self)))
            .serve_with_incoming_shutdown(
                tokio_stream::once(Ok::<_, io::Error>(far)).chain(tokio_stream::pending()),
                self.ending.lock().clone().cancelled_owned(),
            );
        let mut wires = self.wires.lock();
        wires.spawn(async move {
            let _ = copy_bidirectional(&mut near_end, &mut far_end).await;
        });
        wires.spawn(async move { serve.await.unwrap() });
        Ok(Box::new(near))
    }
}

/// Where the adapter connects to.
pub struct Pipe(pub Arc<Fake>);

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pipe")
    }
}

impl Connect for Pipe {
    fn connect(&self) -> Connecting {
        let fake = Arc::clone(&self.0);
        Box::pin(async move { fake.accept() })
    }
}

#[tonic::async_trait]
impl ProviderService for Fake {
    async fn handshake(
        &self,
        request: Request<v1::HandshakeRequest>,
    ) -> Result<Response<v1::HandshakeResponse>, Status> {
        let answer = self.handshake.answer(request).await?;
        answer
            .get_ref()
            .boot_id
            .clone_into(&mut self.boot_id.lock());
        Ok(answer)
    }

    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let mut answer = self.status.answer(request).await?;
        let boot_id = &mut answer.get_mut().boot_id;
        match &**boot_id {
            "" => self.boot_id.lock().clone_into(boot_id),
            NO_BOOT_ID => boot_id.clear(),
            _ => {}
        }
        Ok(answer)
    }
}

/// Counts a call for as long as its handler runs.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tonic::async_trait]
impl InstancesService for Fake {
    async fn batch_get_instances(
        &self,
        request: Request<v1::BatchGetInstancesRequest>,
    ) -> Result<Response<v1::BatchGetInstancesResponse>, Status> {
        let running = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        let _running = Running(&self.in_flight);
        self.most_in_flight.fetch_max(running, Ordering::Relaxed);
        self.batch.answer(request).await
    }

    async fn list_instances(
        &self,
        _: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<Messages<v1::ListInstancesResponse>>, Status> {
        let messages = std::mem::take(&mut *self.on_list.lock());
        let messages = messages.into_iter().map(Ok);
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }
}

//! A provider in this process that says what a test wants, nonsense and old revisions included.

pub(crate) mod load_balancers;
pub(crate) mod volumes;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::stream;
use outrigger_api::v1::{
    self,
    instance_result::Outcome,
    instances_service_server::{InstancesService, InstancesServiceServer},
    provider_service_server::{ProviderService, ProviderServiceServer},
};
use tokio::{
    net::UnixListener,
    runtime::{Builder, Runtime},
};
use tonic::{Request, Response, Status, service::Routes, transport::Server};

type Answer = dyn Fn(&v1::Node) -> Outcome + Send + Sync;

/// Serves at the socket in `dir` until it is dropped, connections included.
pub(crate) struct Scripted {
    socket: PathBuf,
    /// Its own, for connections end with it and with nothing less.
    runtime: Option<Runtime>,
}

/// The provider's identity.
struct Introduced(v1::HandshakeResponse);

struct Service {
    answer: Arc<Answer>,
}

/// Says what the mock says of itself, with instances and nothing else.
pub(crate) fn handshake() -> v1::HandshakeResponse {
    v1::HandshakeResponse {
        minor: 1,
        provider_name: "mock".to_owned(),
        provider_version: "v0".to_owned(),
        boot_id: "scripted".to_owned(),
        capabilities: Some(v1::Capabilities {
            instances: Some(v1::InstancesCapability::default()),
            ..v1::Capabilities::default()
        }),
        ..v1::HandshakeResponse::default()
    }
}

/// A running instance of which nothing else is known.
pub(crate) fn instance(provider_id: &str) -> v1::Instance {
    v1::Instance {
        provider_id: provider_id.to_owned(),
        power_state: v1::PowerState::Running.into(),
        ..v1::Instance::default()
    }
}

impl Scripted {
    /// Introduces itself with `handshake` and answers about each node by `answer`.
    pub(crate) fn serve(
        dir: &Path,
        handshake: v1::HandshakeResponse,
        answer: impl Fn(&v1::Node) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let service = Service {
            answer: Arc::new(answer),
        };
        let introduced = ProviderServiceServer::new(Introduced(handshake));
        let routes = Routes::new(introduced).add_service(InstancesServiceServer::new(service));
        Self::start(dir, routes)
    }

    fn start(dir: &Path, routes: Routes) -> Self {
        let socket = dir.join("provider.sock");
        // A provider that was killed leaves its socket.
        let _ = fs::remove_file(&socket);
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(&socket).unwrap()
        };
        let connections = stream::unfold(listener, async |listener| {
            let connection = listener.accept().await.map(|(stream, _)| stream);
            Some((connection, listener))
        });
        runtime.spawn(async move {
            Server::builder()
                .add_routes(routes)
                .serve_with_incoming(connections)
                .await
                .unwrap();
        });
        Self {
            socket,
            runtime: Some(runtime),
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        let _ = fs::remove_file(&self.socket);
    }
}

#[tonic::async_trait]
impl ProviderService for Introduced {
    async fn handshake(
        &self,
        _: Request<v1::HandshakeRequest>,
    ) -> Result<Response<v1::HandshakeResponse>, Status> {
        Ok(Response::new(self.0.clone()))
    }

    async fn get_status(
        &self,
        _: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(v1::GetStatusResponse {
            readiness: v1::Readiness::Ready.into(),
            boot_id: self.0.boot_id.clone(),
            ..v1::GetStatusResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl InstancesService for Service {
    async fn batch_get_instances(
        &self,
        request: Request<v1::BatchGetInstancesRequest>,
    ) -> Result<Response<v1::BatchGetInstancesResponse>, Status> {
        let nodes = request.into_inner().items;
        let result = |node: &v1::Node| v1::InstanceResult {
            key: node.name.clone(),
            outcome: Some((self.answer)(node)),
            effects: None,
        };
        let results = nodes.iter().map(result).collect();
        Ok(Response::new(v1::BatchGetInstancesResponse { results }))
    }
}

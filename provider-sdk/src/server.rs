//! [`Server`]: everything between the socket and a vendor's code.
//!
//! ```text
//!  socket ─► tonic ─► arrival: deadline, traceparent ─► a service ─► calls: checks, a task ─► keys: one change a key ─► handler
//! ```
//!
//! A vendor registers one value for each capability and serves. Each gRPC service of the contract is a file below this
//! module that turns a message into a call of the vendor's trait; all else is shared: `core` has the state of the process,
//! `calls` runs handlers, `running` counts them, `drain` ends them. `identity` and `health` answer by themselves.
//!
//! A vendor's panic is the error of its call, and a caller that goes away never stops a handler between two changes.

mod arrival;
mod calls;
mod core;
mod drain;
mod health;
mod identity;
mod instances;
mod keys;
mod load_balancers;
mod node_sets;
mod results;
mod routes;
mod running;
mod volumes;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use outrigger_api::DEFAULT_MAX_MESSAGE_BYTES;
use outrigger_api::v1::instances_service_server::InstancesServiceServer;
use outrigger_api::v1::load_balancers_service_server::LoadBalancersServiceServer;
use outrigger_api::v1::node_sets_service_server::{self, NodeSetsServiceServer};
use outrigger_api::v1::routes_service_server::RoutesServiceServer;
use outrigger_api::v1::volumes_service_server::VolumesServiceServer;
use outrigger_api::v1::{self, provider_service_server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_stream::Stream;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic::transport::server::{Connected, Router};

use self::core::Core;
use crate::signals::Signals;
use crate::{BoxError, Endpoint, Instances, Listener, LoadBalancers, Provider, ServeError};

/// Adds one gRPC service, once the settings of the server are known.
type AddService = Box<dyn FnOnce(&Arc<Core>, &mut RoutesBuilder) + Send>;

/// The place where a further service of the contract plugs in: sets its capability, then this.
macro_rules! register {
    ($server:expr, $service:ident, |$core:ident| $rpc:block) => {{
        let mut server = $server;
        let add: AddService = Box::new(move |core, routes| {
            let ($core, max_bytes) = (Arc::clone(core), core.max_message_bytes);
            routes.add_service($service::new($rpc).max_decoding_message_size(max_bytes));
        });
        server
            .services
            .insert(<$service<()> as NamedService>::NAME, add);
        server
    }};
}

/// A provider, ready to be served.
///
/// Besides the services of what is registered it answers `Handshake`, `GetStatus` and
/// `grpc.health.v1`. A capability is offered exactly when its trait is registered.
///
/// ```no_run
/// # use outrigger_provider_sdk::{Endpoint, Instances, Provider, Server};
/// # async fn run(cloud: impl Provider + Instances + Clone) -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint = Endpoint::from_env()?;
/// Server::new(cloud.clone()).instances(cloud).serve(&endpoint).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing until it is served"]
pub struct Server {
    provider: Arc<dyn Provider>,
    capabilities: v1::Capabilities,
    services: BTreeMap<&'static str, AddService>,
    wrappers: Vec<Box<dyn FnOnce(Routes) -> Routes + Send>>,
    max_message_bytes: usize,
}

impl Server {
    /// A provider that serves nothing yet.
    pub fn new(provider: impl Provider) -> Self {
        Self {
            provider: Arc::new(provider),
            capabilities: v1::Capabilities::default(),
            services: BTreeMap::new(),
            wrappers: Vec::new(),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
        }
    }

    /// Serves instances. The controller needs them. Registered twice, the last value counts.
    pub fn instances(mut self, instances: impl Instances) -> Self {
        let capability = instances.capability();
        let lists = capability.list;
        self.capabilities.instances = Some(capability);
        let instances = Arc::new(instances);
        register!(self, InstancesServiceServer, |core| {
            instances::InstancesRpc {
                core,
                instances,
                lists,
            }
        })
    }

    /// Serves load balancers, and node sets with them: backend nodes travel once, and each call names its revision and Nodes.
    /// Registered twice, the last value counts.
    pub fn load_balancers(mut self, load_balancers: impl LoadBalancers) -> Self {
        let capability = load_balancers.capability();
        self.capabilities.load_balancers = Some(capability.clone());
        self.capabilities.node_sets = Some(v1::NodeSetsCapability {});
        let server = register!(self, LoadBalancersServiceServer, |core| {
            load_balancers::LoadBalancersRpc::new(core, load_balancers, capability)
        });
        register!(server, NodeSetsServiceServer, |core| {
            node_sets::NodeSetsRpc { core }
        })
    }

    /// Offers no node sets: every call brings its backend nodes along, as to a provider that was
    /// written without this crate. Costs far more, and serves tests of that way. To be called after
    /// [`load_balancers`](Self::load_balancers).
    pub fn without_node_sets(mut self) -> Self {
        self.capabilities.node_sets = None;
        self.services.remove(node_sets_service_server::SERVICE_NAME);
        self
    }

    /// Serves routes. Registered twice, the last value counts.
    pub fn routes(mut self, routes: impl crate::Routes) -> Self {
        let capability = routes.capability();
        self.capabilities.routes = Some(capability);
        register!(self, RoutesServiceServer, |core| {
            routes::RoutesRpc::new(core, routes, capability.max_in_flight)
        })
    }

    /// Serves volumes. Registered twice, the last value counts.
    pub fn volumes(mut self, volumes: impl crate::Volumes) -> Self {
        self.capabilities.volumes = Some(volumes.capability());
        let volumes = Arc::new(volumes);
        register!(self, VolumesServiceServer, |core| {
            volumes::VolumesRpc { core, volumes }
        })
    }

    /// Wraps all services, those of the SDK included, for instance in a tower layer:
    ///
    /// ```
    /// # use outrigger_provider_sdk::Server;
    /// # fn with_layer(server: Server) -> Server {
    /// # let layer = tower::layer::util::Identity::new();
    /// server.wrap(move |mut routes| {
    ///     let router = routes.axum_router_mut();
    ///     *router = std::mem::take(router).layer(layer);
    ///     routes
    /// })
    /// # }
    /// ```
    ///
    /// The last wrapper sees a call first. Handlers, deadlines and draining are inside.
    ///
    /// With the feature `tonic`, and as stable as tonic's own releases.
    #[cfg(feature = "tonic")]
    pub fn wrap(mut self, wrap: impl FnOnce(Routes) -> Routes + Send + 'static) -> Self {
        self.wrappers.push(Box::new(wrap));
        self
    }

    /// Largest message that is accepted, in bytes; named at handshake. Default 4 MiB, at least
    /// 1 MiB, which every provider must accept.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes.max(1 << 20);
        self
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// The socket appears with mode 0660 once calls are answered. After the signal new calls get
    /// `SHUTTING_DOWN`, running ones have 20 s to end by themselves and 5 s more once they are
    /// cancelled, then the socket file is removed. A second signal ends it at once.
    ///
    /// # Errors
    ///
    /// Before the first call: the socket cannot be made, signals cannot be caught. Later: the transport failed, or the second
    /// signal.
    ///
    /// # Cancellation
    ///
    /// See [`serve_until`](Self::serve_until).
    pub async fn serve(self, endpoint: &Endpoint) -> Result<(), ServeError> {
        let mut signals = Signals::new()?;
        self.serve_signalled(endpoint, &mut signals).await
    }

    pub(crate) async fn serve_signalled(
        self,
        endpoint: &Endpoint,
        signals: &mut Signals,
    ) -> Result<(), ServeError> {
        let stop = tokio_util::sync::CancellationToken::new();
        let serving = self.serve_until(endpoint, stop.clone().cancelled_owned());
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => return ended,
            signal = signals.next() => tracing::info!(signal, "stopping"),
        }
        stop.cancel();
        tokio::select! {
            ended = &mut serving => ended,
            signal = signals.next() => Err(ServeError::Interrupted { signal }),
        }
    }

    /// Like [`serve`](Self::serve), until `shutdown` resolves instead of a signal.
    ///
    /// # Errors
    ///
    /// The socket cannot be made, or the transport failed.
    ///
    /// # Cancellation
    ///
    /// Dropping the future removes the socket file, but lets connections that were accepted live on.
    ///
    /// # Example
    ///
    /// ```
    /// use outrigger_provider_sdk::{Endpoint, Provider, ProviderInfo, Server};
    ///
    /// struct Cloud;
    ///
    /// impl Provider for Cloud {
    ///     fn info(&self) -> ProviderInfo {
    ///         ProviderInfo::new("example", "1.0.0")
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let directory = tempfile::tempdir()?;
    /// let endpoint = Endpoint::unix(directory.path().join("provider.sock"))?;
    /// let shutdown = std::future::ready(());
    /// Server::new(Cloud).serve_until(&endpoint, shutdown).await?;
    /// assert!(!endpoint.path().exists(), "a server that has ended leaves no socket");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve_until(
        self,
        endpoint: &Endpoint,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (core, router) = self.build();
        let listener = Listener::bind(endpoint).await?;
        tracing::info!(
            %endpoint,
            provider = core.info.name,
            version = core.info.version,
            boot_id = core.boot_id,
            "serving"
        );
        let ended = drain::serve_on(&core, router, listener, shutdown).await;
        tracing::info!("stopped");
        ended
    }

    /// Like [`serve_until`](Self::serve_until), on a socket that was made before.
    ///
    /// # Errors
    ///
    /// The transport failed.
    pub async fn serve_on(
        self,
        listener: Listener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (core, router) = self.build();
        drain::serve_on(&core, router, listener, shutdown).await
    }

    /// Serves connections of any kind that tonic knows, `tokio::io::duplex` included, until `shutdown` resolves;
    /// then drains as [`serve`](Self::serve) does. The end of `incoming` means no more connections,
    /// not the end of those it has yielded.
    ///
    /// Time is tokio's alone, so a test with a paused clock can drive both ends.
    ///
    /// # Errors
    ///
    /// The transport failed.
    ///
    /// # Cancellation
    ///
    /// Dropping the future lets connections that were accepted live on.
    pub async fn serve_with_incoming<I, IO, E>(
        self,
        incoming: I,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError>
    where
        I: Stream<Item = Result<IO, E>>,
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
        E: Into<BoxError>,
    {
        let (core, router) = self.build();
        drain::serve(&core, router, incoming, shutdown, None).await
    }

    fn build(self) -> (Arc<Core>, Router) {
        let core = Arc::new(Core::new(
            self.provider,
            self.capabilities,
            self.max_message_bytes,
        ));
        let mut served: Vec<_> = self.services.keys().copied().collect();
        served.push(provider_service_server::SERVICE_NAME);

        let mut routes = RoutesBuilder::default();
        routes.add_service(
            provider_service_server::ProviderServiceServer::new(identity::Identity::new(
                Arc::clone(&core),
            ))
            .max_decoding_message_size(self.max_message_bytes),
        );
        routes.add_service(health::service(Arc::clone(&core), served));
        for add in self.services.into_values() {
            add(&core, &mut routes);
        }
        let routes = arrival::layered(routes.routes());
        let routes = self
            .wrappers
            .into_iter()
            .fold(routes, |routes, wrap| wrap(routes));
        (core, tonic::transport::Server::builder().add_routes(routes))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("capabilities", &self.capabilities)
            .field("services", &self.services.keys())
            .field("max_message_bytes", &self.max_message_bytes)
            .finish_non_exhaustive()
    }
}

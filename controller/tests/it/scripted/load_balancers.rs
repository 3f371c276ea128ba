//! A provider of load balancers that says what a test wants.

use std::{path::Path, sync::Arc};

use outrigger_api::v1::{
    self, LoadBalancerDisposition as Disposition,
    load_balancers_service_server::{LoadBalancersService, LoadBalancersServiceServer},
    provider_service_server::ProviderServiceServer,
};
use parking_lot::Mutex;
use tonic::{Request, Response, Status, service::Routes};

use super::{Introduced, Scripted, handshake};

type Ensure = dyn Fn(&v1::Service) -> v1::LoadBalancerAnswer + Send + Sync;

/// Serves at the socket in its directory until it is dropped.
pub(crate) struct Balancing {
    ensured: Arc<Mutex<Vec<v1::Service>>>,
    _served: Scripted,
}

#[derive(Clone)]
struct Balancer {
    ensure: Arc<Ensure>,
    ensured: Arc<Mutex<Vec<v1::Service>>>,
}

/// Says what the mock says of itself, with load balancers and what may be written for it.
pub(crate) fn balancing(effects: v1::EffectsCapability) -> v1::HandshakeResponse {
    v1::HandshakeResponse {
        capabilities: Some(v1::Capabilities {
            load_balancers: Some(v1::LoadBalancersCapability::default()),
            effects: Some(effects),
            ..v1::Capabilities::default()
        }),
        ..handshake()
    }
}

/// Ready at this address.
pub(crate) fn ready(ip: &str) -> v1::LoadBalancerAnswer {
    v1::LoadBalancerAnswer {
        disposition: Disposition::Ready.into(),
        status: Some(v1::LoadBalancerStatus {
            ingress: vec![v1::LoadBalancerIngress {
                ip: ip.to_owned(),
                ..v1::LoadBalancerIngress::default()
            }],
        }),
        ..v1::LoadBalancerAnswer::default()
    }
}

impl Balancing {
    /// Introduces itself with `handshake` and answers to Ensure by `ensure`; everything else goes
    /// well.
    pub(crate) fn serve(
        dir: &Path,
        handshake: v1::HandshakeResponse,
        ensure: impl Fn(&v1::Service) -> v1::LoadBalancerAnswer + Send + Sync + 'static,
    ) -> Self {
        let ensured = Arc::default();
        let balancer = Balancer {
            ensure: Arc::new(ensure),
            ensured: Arc::clone(&ensured),
        };
        let introduced = ProviderServiceServer::new(Introduced(handshake));
        let routes = Routes::new(introduced).add_service(LoadBalancersServiceServer::new(balancer));
        Self {
            ensured,
            _served: Scripted::start(dir, routes),
        }
    }

    /// The Service in each Ensure of it.
    pub(crate) fn ensured(&self, name: &str) -> Vec<v1::Service> {
        let ensured = self.ensured.lock();
        let of_name = ensured.iter().filter(|service| service.name == name);
        of_name.cloned().collect()
    }
}

#[tonic::async_trait]
impl LoadBalancersService for Balancer {
    async fn ensure_load_balancer(
        &self,
        request: Request<v1::EnsureLoadBalancerRequest>,
    ) -> Result<Response<v1::EnsureLoadBalancerResponse>, Status> {
        let service = request.into_inner().service.unwrap_or_default();
        let answer = (self.ensure)(&service);
        self.ensured.lock().push(service);
        Ok(Response::new(v1::EnsureLoadBalancerResponse {
            answer: Some(answer),
        }))
    }

    async fn delete_load_balancer(
        &self,
        _: Request<v1::DeleteLoadBalancerRequest>,
    ) -> Result<Response<v1::DeleteLoadBalancerResponse>, Status> {
        Ok(Response::new(v1::DeleteLoadBalancerResponse {
            answer: Some(v1::LoadBalancerAnswer {
                disposition: Disposition::Absent.into(),
                ..v1::LoadBalancerAnswer::default()
            }),
        }))
    }

    async fn update_load_balancer_nodes(
        &self,
        _: Request<v1::UpdateLoadBalancerNodesRequest>,
    ) -> Result<Response<v1::UpdateLoadBalancerNodesResponse>, Status> {
        Ok(Response::new(v1::UpdateLoadBalancerNodesResponse {
            answer: Some(v1::LoadBalancerAnswer {
                disposition: Disposition::Ready.into(),
                ..v1::LoadBalancerAnswer::default()
            }),
        }))
    }
}

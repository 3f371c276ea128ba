//! Calls to the provider under test, each with the deadline that the contract names, and each recorded.

mod call;
mod error;
mod lists;
mod raw;
mod uploads;

use std::{path::Path, sync::Arc, time::Duration};

use outrigger_api::v1::{
    self, instances_service_client::InstancesServiceClient,
    load_balancers_service_client::LoadBalancersServiceClient,
    provider_service_client::ProviderServiceClient, routes_service_client::RoutesServiceClient,
    volumes_service_client::VolumesServiceClient,
};
use tokio::sync::watch;
use tonic::{metadata::MetadataMap, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient};

pub use error::CallError;
pub use lists::Listed;

use crate::{
    connection::{self, Manner},
    ledger::Ledger,
};

/// One connection to the provider. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    ledger: Arc<Ledger>,
    /// Takes the place of every deadline of the contract.
    deadline: Option<Duration>,
    /// Of every call.
    metadata: MetadataMap,
    /// True: streams of answers are read.
    reads: Option<watch::Receiver<bool>>,
}

/// The methods that have one request and one answer.
macro_rules! unary {
    ($($(#[$docs:meta])* $method:ident: $rpc:literal, $client:ident, $seconds:literal, $request:ty => $answer:ty;)*) => {
        impl Client {
            $(
                $(#[$docs])*
                pub async fn $method(&self, request: $request) -> Result<$answer, CallError> {
                    let answer = self.unary($rpc, Duration::from_secs($seconds), request, |channel, request| async move {
                        $client::new(channel).$method(request).await
                    });
                    let answer = answer.await?;
                    self.ledger.see(&answer);
                    Ok(answer)
                }
            )*
        }
    };
}

unary! {
    /// `ProviderService.Handshake`.
    handshake: "Handshake", ProviderServiceClient, 10, v1::HandshakeRequest => v1::HandshakeResponse;
    /// `ProviderService.GetStatus`.
    get_status: "GetStatus", ProviderServiceClient, 5, v1::GetStatusRequest => v1::GetStatusResponse;
    /// `grpc.health.v1.Health.Check`.
    check: "Health.Check", HealthClient, 5, HealthCheckRequest => HealthCheckResponse;
    /// `InstancesService.BatchGetInstances`.
    batch_get_instances: "BatchGetInstances", InstancesServiceClient, 30, v1::BatchGetInstancesRequest => v1::BatchGetInstancesResponse;
    /// `LoadBalancersService.GetLoadBalancer`.
    get_load_balancer: "GetLoadBalancer", LoadBalancersServiceClient, 120, v1::GetLoadBalancerRequest => v1::GetLoadBalancerResponse;
    /// `LoadBalancersService.EnsureLoadBalancer`.
    ensure_load_balancer: "EnsureLoadBalancer", LoadBalancersServiceClient, 120, v1::EnsureLoadBalancerRequest => v1::EnsureLoadBalancerResponse;
    /// `LoadBalancersService.DeleteLoadBalancer`.
    delete_load_balancer: "DeleteLoadBalancer", LoadBalancersServiceClient, 120, v1::DeleteLoadBalancerRequest => v1::DeleteLoadBalancerResponse;
    /// `LoadBalancersService.PlanLoadBalancer`.
    plan_load_balancer: "PlanLoadBalancer", LoadBalancersServiceClient, 120, v1::PlanLoadBalancerRequest => v1::PlanLoadBalancerResponse;
    /// `RoutesService.BatchCreateRoutes`.
    batch_create_routes: "BatchCreateRoutes", RoutesServiceClient, 120, v1::BatchCreateRoutesRequest => v1::BatchCreateRoutesResponse;
    /// `RoutesService.BatchDeleteRoutes`.
    batch_delete_routes: "BatchDeleteRoutes", RoutesServiceClient, 120, v1::BatchDeleteRoutesRequest => v1::BatchDeleteRoutesResponse;
    /// `VolumesService.BatchGetVolumes`.
    batch_get_volumes: "BatchGetVolumes", VolumesServiceClient, 30, v1::BatchGetVolumesRequest => v1::BatchGetVolumesResponse;
}

impl Client {
    /// Connects to the socket.
    pub(crate) async fn dial(
        socket: &Path,
        manner: Manner<'_>,
        ledger: Arc<Ledger>,
    ) -> Result<Self, String> {
        Ok(Self {
            channel: connection::dial(socket, manner).await?,
            ledger,
            deadline: None,
            metadata: MetadataMap::new(),
            reads: None,
        })
    }

    /// The same connection, with one deadline for every call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            deadline: Some(deadline),
            ..self.clone()
        }
    }

    /// The same connection; streams of answers are not read before `reads` is true.
    #[must_use]
    pub fn reading_when(&self, reads: watch::Receiver<bool>) -> Self {
        Self {
            reads: Some(reads),
            ..self.clone()
        }
    }

    /// The same connection, with metadata on every call.
    #[must_use]
    pub fn with_metadata(&self, metadata: MetadataMap) -> Self {
        Self {
            metadata,
            ..self.clone()
        }
    }
}

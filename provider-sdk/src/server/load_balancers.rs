//! `LoadBalancersService`: changes serialised before a vendor's handler.

use std::sync::Arc;

use outrigger_api::v1::{self, load_balancers_service_server::LoadBalancersService};
use tonic::{Request, Response, Status};

use super::calls::{Answers, not_served};
use super::core::Core;
use super::keys::Keys;
use crate::{
    Context, Ensured, Error, LoadBalancerSink, LoadBalancers, LoadBalancersCapability,
    PlanOperation, PlannedChange, Service, Updated,
};

pub(super) struct LoadBalancersRpc<L>(Arc<Shared<L>>);

struct Shared<L> {
    core: Arc<Core>,
    load_balancers: L,
    capability: LoadBalancersCapability,
    keys: Arc<Keys>,
}

impl<L: LoadBalancers> LoadBalancersRpc<L> {
    pub(super) fn new(
        core: Arc<Core>,
        load_balancers: L,
        capability: LoadBalancersCapability,
    ) -> Self {
        let max_in_flight = capability.max_in_flight;
        Self(Arc::new(Shared {
            core,
            load_balancers,
            capability,
            keys: Arc::new(Keys::at_most(max_in_flight)),
        }))
    }
}

#[tonic::async_trait]
impl<L: LoadBalancers> LoadBalancersService for LoadBalancersRpc<L> {
    async fn get_load_balancer(
        &self,
        request: Request<v1::GetLoadBalancerRequest>,
    ) -> Result<Response<v1::GetLoadBalancerResponse>, Status> {
        let shared = Arc::clone(&self.0);
        let get = async move |ctx, request: v1::GetLoadBalancerRequest| {
            let service = named(request.service, request.identity)?;
            let targets = request
                .targets
                .map(|targets| shared.core.node_set.resolve(Some(targets)));
            let targets = targets.transpose()?;
            let answer = shared
                .load_balancers
                .get_load_balancer(&ctx, &service, targets.as_ref());
            let answer = Some(answer.await?.into_wire());
            Ok(v1::GetLoadBalancerResponse { answer })
        };
        self.0.core.unary(request, get).await
    }

    async fn ensure_load_balancer(
        &self,
        request: Request<v1::EnsureLoadBalancerRequest>,
    ) -> Result<Response<v1::EnsureLoadBalancerResponse>, Status> {
        let shared = Arc::clone(&self.0);
        let ensure = async move |ctx: Context, request: v1::EnsureLoadBalancerRequest| {
            let service = named(request.service, request.identity)?;
            let targets = shared.core.node_set.resolve(request.targets)?;
            let answer = if shared.capability.serves(&service) {
                let _held = shared.keys.hold(&ctx, &service.uid).await?;
                let answer = shared
                    .load_balancers
                    .ensure_load_balancer(&ctx, &service, &targets);
                answer.await?
            } else {
                Ensured::NotManaged.into()
            };
            let answer = Some(answer.into_wire());
            Ok(v1::EnsureLoadBalancerResponse { answer })
        };
        self.0.core.unary(request, ensure).await
    }

    async fn update_load_balancer_nodes(
        &self,
        request: Request<v1::UpdateLoadBalancerNodesRequest>,
    ) -> Result<Response<v1::UpdateLoadBalancerNodesResponse>, Status> {
        let shared = Arc::clone(&self.0);
        let update = async move |ctx: Context, request: v1::UpdateLoadBalancerNodesRequest| {
            let service = named(request.service, request.identity)?;
            let targets = shared.core.node_set.resolve(request.targets)?;
            let answer = if shared.capability.serves(&service) {
                let _held = shared.keys.hold(&ctx, &service.uid).await?;
                let answer = shared
                    .load_balancers
                    .update_load_balancer_nodes(&ctx, &service, &targets);
                answer.await?
            } else {
                Updated::NotManaged.into()
            };
            let answer = Some(answer.into_wire());
            Ok(v1::UpdateLoadBalancerNodesResponse { answer })
        };
        self.0.core.unary(request, update).await
    }

    async fn delete_load_balancer(
        &self,
        request: Request<v1::DeleteLoadBalancerRequest>,
    ) -> Result<Response<v1::DeleteLoadBalancerResponse>, Status> {
        let shared = Arc::clone(&self.0);
        let delete = async move |ctx, request: v1::DeleteLoadBalancerRequest| {
            let service = named(request.service, request.identity)?;
            let _held = shared.keys.hold(&ctx, &service.uid).await?;
            let answer = shared.load_balancers.delete_load_balancer(&ctx, &service);
            let answer = Some(answer.await?.into_wire());
            Ok(v1::DeleteLoadBalancerResponse { answer })
        };
        self.0.core.unary(request, delete).await
    }

    async fn list_load_balancers(
        &self,
        request: Request<v1::ListLoadBalancersRequest>,
    ) -> Result<Response<Answers<v1::ListLoadBalancersResponse>>, Status> {
        let shared = Arc::clone(&self.0);
        let list = async move |ctx, _, mut sink: LoadBalancerSink| {
            shared
                .load_balancers
                .list_load_balancers(&ctx, &mut sink)
                .await?;
            sink.complete().await
        };
        self.0.core.list(request, self.0.capability.list, list)
    }

    async fn plan_load_balancer(
        &self,
        request: Request<v1::PlanLoadBalancerRequest>,
    ) -> Result<Response<v1::PlanLoadBalancerResponse>, Status> {
        let shared = Arc::clone(&self.0);
        let plan = async move |ctx, request: v1::PlanLoadBalancerRequest| {
            if !shared.capability.plan {
                return Err(not_served::<v1::PlanLoadBalancerRequest>());
            }
            let operation = match request.operation() {
                v1::PlanOperation::Ensure => {
                    PlanOperation::Ensure(shared.core.node_set.resolve(request.targets)?)
                }
                v1::PlanOperation::Delete => PlanOperation::Delete,
                v1::PlanOperation::Unspecified => {
                    return Err(Error::invalid_request(
                        "the request names no operation that this provider knows",
                    ));
                }
            };
            let service = named(request.service, request.identity)?;
            if matches!(operation, PlanOperation::Ensure(_)) && !shared.capability.serves(&service)
            {
                return Ok(v1::PlanLoadBalancerResponse::default());
            }
            let changes = shared
                .load_balancers
                .plan_load_balancer(&ctx, &service, &operation);
            let changes = changes.await?.into_iter();
            let changes = changes.map(PlannedChange::into_wire).collect();
            Ok(v1::PlanLoadBalancerResponse { changes })
        };
        self.0.core.unary(request, plan).await
    }
}

/// The Service of a request. Without its key nothing in the cloud is this Service's alone.
fn named(
    service: Option<v1::Service>,
    identity: Option<v1::LoadBalancerIdentity>,
) -> Result<Service, Error> {
    let service = service.filter(|service| !service.uid.is_empty());
    let no_service = || Error::invalid_request("the request has no Service with a UID");
    let service = Service::from_wire(service.ok_or_else(no_service)?);
    let v1::LoadBalancerIdentity { id, name } = identity.unwrap_or_default();
    Ok(Service {
        cloud_id: id,
        cloud_name: name,
        ..service
    })
}

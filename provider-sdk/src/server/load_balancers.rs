//! `LoadBalancersService`: each call goes to the vendor's [`LoadBalancers`], with its targets in place of the revision that
//! it names.
//!
//! A changing call waits for its Service's lock (`keys`). A Service without a UID is refused. A Service of a class that is
//! not served is answered here, for Ensure, Update and a plan of Ensure; its deletion reaches the vendor.

use std::sync::Arc;

use outrigger_api::v1::{self, load_balancers_service_server::LoadBalancersService};
use tonic::{Request, Response, Status};

use super::calls::{Answers, not_served};
use super::core::Core;
use super::keys::{Held, Keys};
use crate::{Context, Error, LoadBalancerSink, LoadBalancers, OfService, Targets, answer};

pub(super) struct LoadBalancersRpc<L>(Arc<Shared<L>>);

struct Shared<L> {
    core: Arc<Core>,
    load_balancers: L,
    capability: v1::LoadBalancersCapability,
    keys: Arc<Keys>,
}

impl<L: LoadBalancers> LoadBalancersRpc<L> {
    pub(super) fn new(
        core: Arc<Core>,
        load_balancers: L,
        capability: v1::LoadBalancersCapability,
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

impl<L> Shared<L> {
    /// Waits for the turn of the Service of a request.
    async fn turn(&self, ctx: &Context, request: &impl OfService) -> Result<Held, Error> {
        self.keys.hold(ctx, &named(request)?.uid).await
    }

    fn targets(&self, targets: Option<&v1::NodeTargets>) -> Result<Targets, Error> {
        self.core.node_set.resolve(targets)
    }

    /// Returns whether Services of this one's class are served.
    fn serves(&self, request: &impl OfService) -> bool {
        match &request.service().load_balancer_class {
            None => !self.capability.without_default_class,
            Some(class) => self.capability.classes.contains(class),
        }
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
            named(&request)?;
            let targets = request.targets.as_ref();
            let targets = targets
                .map(|targets| shared.targets(Some(targets)))
                .transpose()?;
            let cloud = &shared.load_balancers;
            let answer = cloud.get_load_balancer(&ctx, &request, targets.as_ref());
            let answer = Some(answer.await?);
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
            let targets = shared.targets(request.targets.as_ref())?;
            let answer = if shared.serves(&request) {
                let _held = shared.turn(&ctx, &request).await?;
                let cloud = &shared.load_balancers;
                cloud.ensure_load_balancer(&ctx, &request, &targets).await?
            } else {
                answer::not_managed()
            };
            let answer = Some(answer);
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
            let targets = shared.targets(request.targets.as_ref())?;
            let answer = if shared.serves(&request) {
                let _held = shared.turn(&ctx, &request).await?;
                let cloud = &shared.load_balancers;
                let answer = cloud.update_load_balancer_nodes(&ctx, &request, &targets);
                answer.await?
            } else {
                answer::not_managed()
            };
            let answer = Some(answer);
            Ok(v1::UpdateLoadBalancerNodesResponse { answer })
        };
        self.0.core.unary(request, update).await
    }

    async fn delete_load_balancer(
        &self,
        request: Request<v1::DeleteLoadBalancerRequest>,
    ) -> Result<Response<v1::DeleteLoadBalancerResponse>, Status> {
        let shared = Arc::clone(&self.0);
        let delete = async move |ctx: Context, request: v1::DeleteLoadBalancerRequest| {
            let _held = shared.turn(&ctx, &request).await?;
            let answer = shared.load_balancers.delete_load_balancer(&ctx, &request);
            let answer = Some(answer.await?);
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
            let cloud = &shared.load_balancers;
            cloud.list_load_balancers(&ctx, &mut sink).await?;
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
            named(&request)?;
            let targets = match request.operation() {
                v1::PlanOperation::Ensure if !shared.serves(&request) => {
                    return Ok(v1::PlanLoadBalancerResponse::default());
                }
                v1::PlanOperation::Ensure => Some(shared.targets(request.targets.as_ref())?),
                v1::PlanOperation::Delete => None,
                v1::PlanOperation::Unspecified => {
                    return Err(Error::invalid_request(
                        "the request names no operation that this provider knows",
                    ));
                }
            };
            let cloud = &shared.load_balancers;
            let changes = cloud.plan_load_balancer(&ctx, &request, targets.as_ref());
            let changes = changes.await?;
            Ok(v1::PlanLoadBalancerResponse { changes })
        };
        self.0.core.unary(request, plan).await
    }
}

/// The Service of a request. Without its key nothing in the cloud is this Service's alone.
fn named(request: &impl OfService) -> Result<&v1::Service, Error> {
    let service = Some(request.service()).filter(|service| !service.uid.is_empty());
    service.ok_or_else(|| Error::invalid_request("the request has no Service with a UID"))
}

//! `LoadBalancersService`: requests checked and serialised before a vendor's handler.

use std::collections::HashSet;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use outrigger_api::v1::{self, load_balancers_service_server::LoadBalancersService};
use tonic::{Request, Response, Status};

use super::calls::{Answers, Call, answered};
use super::core::Core;
use super::keys::Keys;
use crate::load_balancers::{LoadBalancerSink, update_each};
use crate::node_sets::NodeSets;
use crate::{
    Answer, Ensured, Error, LoadBalancers, LoadBalancersCapability, PlanOperation, PlannedChange,
    Service, Updated,
};

pub(super) struct LoadBalancersRpc<L> {
    core: Arc<Core>,
    load_balancers: Arc<L>,
    capability: Arc<LoadBalancersCapability>,
    node_sets: Arc<NodeSets>,
    keys: Arc<Keys>,
}

impl<L: LoadBalancers> LoadBalancersRpc<L> {
    pub(super) fn new(
        core: Arc<Core>,
        load_balancers: Arc<L>,
        mut capability: LoadBalancersCapability,
        node_sets: Arc<NodeSets>,
    ) -> Self {
        let max_in_flight = capability.max_in_flight;
        if max_in_flight > 0 {
            capability.concurrency = capability.concurrency.min(max_in_flight as usize);
        }
        Self {
            core,
            load_balancers,
            capability: Arc::new(capability),
            node_sets,
            keys: Arc::new(Keys::at_most(max_in_flight)),
        }
    }
}

#[tonic::async_trait]
impl<L: LoadBalancers> LoadBalancersService for LoadBalancersRpc<L> {
    async fn get_load_balancer(
        &self,
        request: Request<v1::GetLoadBalancerRequest>,
    ) -> Result<Response<v1::GetLoadBalancerResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "GetLoadBalancer", &request, |request| {
                request.context.as_ref()
            })?;
            let request = request.into_inner();
            let service = named(request.service)?;
            let targets = match request.targets {
                Some(targets) => Some(self.node_sets.resolve(Some(targets))?),
                None => None,
            };
            let load_balancers = Arc::clone(&self.load_balancers);
            let response = call.run(async move |ctx| {
                let answer = load_balancers.get_load_balancer(&ctx, &service, targets.as_ref());
                let answer = Some(answer.await?.into_wire());
                Ok(v1::GetLoadBalancerResponse { answer })
            });
            response.await
        })
        .await
    }

    async fn ensure_load_balancer(
        &self,
        request: Request<v1::EnsureLoadBalancerRequest>,
    ) -> Result<Response<v1::EnsureLoadBalancerResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "EnsureLoadBalancer", &request, |request| {
                request.context.as_ref()
            })?;
            let request = request.into_inner();
            let service = named(request.service)?;
            let targets = self.node_sets.resolve(request.targets)?;
            let held = request.held_addresses.map(addresses).transpose()?;
            if !self.capability.serves(&service) {
                let answer = Some(Answer::from(Ensured::NotManaged).into_wire());
                return Ok(v1::EnsureLoadBalancerResponse { answer });
            }
            let (load_balancers, keys) = (Arc::clone(&self.load_balancers), Arc::clone(&self.keys));
            let response = call.run(async move |ctx| {
                let ctx = ctx.with_held_addresses(held);
                let _key = keys.hold(&ctx, &service.uid).await?;
                let answer = load_balancers.ensure_load_balancer(&ctx, &service, &targets);
                let answer = Some(answer.await?.into_wire());
                Ok(v1::EnsureLoadBalancerResponse { answer })
            });
            response.await
        })
        .await
    }

    type UpdateLoadBalancerNodesStream = Answers<v1::UpdateLoadBalancerNodesResponse>;

    async fn update_load_balancer_nodes(
        &self,
        request: Request<v1::UpdateLoadBalancerNodesRequest>,
    ) -> Result<Response<Self::UpdateLoadBalancerNodesStream>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "UpdateLoadBalancerNodes", &request, |request| {
                request.context.as_ref()
            })?;
            let request = request.into_inner();
            let services = request.items;
            check_services(&services, self.capability.max_services_per_update as usize)?;
            let services: Vec<_> = services.into_iter().map(Service::from_wire).collect();
            let targets = self.node_sets.resolve(request.targets)?;
            let (load_balancers, keys) = (Arc::clone(&self.load_balancers), Arc::clone(&self.keys));
            let capability = Arc::clone(&self.capability);
            let messages = call.stream(async move |ctx, results| {
                let update = async |service| {
                    if !capability.serves(service) {
                        return Ok(Answer::from(Updated::NotManaged));
                    }
                    let _held = keys.hold(&ctx, &service.uid).await?;
                    let updated =
                        load_balancers.update_load_balancer_nodes(&ctx, service, &targets);
                    AssertUnwindSafe(updated)
                        .catch_unwind()
                        .await
                        .unwrap_or_else(|panic| Err(ctx.panicked(panic.as_ref())))
                };
                update_each(&ctx, &services, capability.concurrency, &results, update).await
            });
            Ok(Box::pin(messages) as Answers<_>)
        })
        .await
    }

    async fn delete_load_balancer(
        &self,
        request: Request<v1::DeleteLoadBalancerRequest>,
    ) -> Result<Response<v1::DeleteLoadBalancerResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "DeleteLoadBalancer", &request, |request| {
                request.context.as_ref()
            })?;
            let service = named(request.into_inner().service)?;
            let (load_balancers, keys) = (Arc::clone(&self.load_balancers), Arc::clone(&self.keys));
            let response = call.run(async move |ctx| {
                let _held = keys.hold(&ctx, &service.uid).await?;
                let answer = load_balancers.delete_load_balancer(&ctx, &service).await?;
                let answer = Some(answer.into_wire());
                Ok(v1::DeleteLoadBalancerResponse { answer })
            });
            response.await
        })
        .await
    }

    type ListLoadBalancersStream = Answers<v1::ListLoadBalancersResponse>;

    async fn list_load_balancers(
        &self,
        request: Request<v1::ListLoadBalancersRequest>,
    ) -> Result<Response<Self::ListLoadBalancersStream>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "ListLoadBalancers", &request, |request| {
                request.context.as_ref()
            })?;
            if !self.capability.list {
                return Err(Error::capability_disabled(
                    "this provider does not list load balancers",
                ));
            }
            let max_bytes = call.session.max_send_bytes;
            let load_balancers = Arc::clone(&self.load_balancers);
            let messages = call.stream(async move |ctx, messages| {
                let mut sink = LoadBalancerSink::new(ctx.clone(), messages, max_bytes);
                load_balancers.list_load_balancers(&ctx, &mut sink).await?;
                sink.complete().await
            });
            Ok(Box::pin(messages) as Answers<_>)
        })
        .await
    }

    async fn plan_load_balancer(
        &self,
        request: Request<v1::PlanLoadBalancerRequest>,
    ) -> Result<Response<v1::PlanLoadBalancerResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "PlanLoadBalancer", &request, |request| {
                request.context.as_ref()
            })?;
            if !self.capability.plan {
                return Err(Error::capability_disabled(
                    "this provider does not plan load balancers",
                ));
            }
            let request = request.into_inner();
            let operation = match request.operation() {
                v1::PlanOperation::Ensure => {
                    PlanOperation::Ensure(self.node_sets.resolve(request.targets)?)
                }
                v1::PlanOperation::Delete => PlanOperation::Delete,
                v1::PlanOperation::Unspecified => {
                    return Err(Error::invalid_request(
                        "the request names no operation that this provider knows",
                    ));
                }
            };
            let service = named(request.service)?;
            let unserved =
                matches!(operation, PlanOperation::Ensure(_)) && !self.capability.serves(&service);
            if unserved {
                return Ok(v1::PlanLoadBalancerResponse::default());
            }
            let load_balancers = Arc::clone(&self.load_balancers);
            let response = call.run(async move |ctx| {
                let changes = load_balancers.plan_load_balancer(&ctx, &service, &operation);
                let changes = changes
                    .await?
                    .into_iter()
                    .map(PlannedChange::into_wire)
                    .collect();
                Ok(v1::PlanLoadBalancerResponse { changes })
            });
            response.await
        })
        .await
    }
}

fn named(service: Option<v1::Service>) -> Result<Service, Error> {
    let service = service.ok_or_else(|| Error::invalid_request("the request has no service"))?;
    match wrong(&service) {
        None => Ok(Service::from_wire(service)),
        Some(wrong) => Err(Error::invalid_request(format!("service {wrong}"))),
    }
}

fn addresses(held: v1::HeldAddresses) -> Result<Arc<[IpAddr]>, Error> {
    let read = |ip: String| {
        let parsed = ip.parse::<IpAddr>();
        parsed.map_err(|_| {
            Error::invalid_request(format!("held_addresses has {ip:?}, which is no IP address"))
        })
    };
    held.ips.into_iter().map(read).collect()
}

fn check_services(services: &[v1::Service], max: usize) -> Result<(), Error> {
    if services.is_empty() || services.len() > max {
        return Err(Error::invalid_request(format!(
            "the request is about {} services; send 1 to {max} \
             (LoadBalancersCapability.max_services_per_update)",
            services.len()
        )));
    }
    let mut uids = HashSet::with_capacity(services.len());
    for (index, service) in services.iter().enumerate() {
        let wrong = wrong(service).or_else(|| {
            let uid = service.uid.as_str();
            (!uids.insert(uid)).then(|| format!("has the UID {uid:?}, which came before"))
        });
        if let Some(wrong) = wrong {
            return Err(Error::invalid_request(format!("services[{index}] {wrong}")));
        }
    }
    Ok(())
}

/// The mistake in the key of a Service or its name, if there is one.
fn wrong(service: &v1::Service) -> Option<String> {
    [
        ("UID", &service.uid),
        ("namespace", &service.namespace),
        ("name", &service.name),
    ]
    .into_iter()
    .find(|(_, text)| !(1..=253).contains(&text.len()))
    .map(|(field, text)| format!("has a {field} of {} bytes; send 1 to 253", text.len()))
}

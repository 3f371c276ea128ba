//! Load balancers in memory, and a caller of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::{
    self, EnsureLoadBalancerRequest, InlineNodes, LoadBalancerAnswer, LoadBalancersCapability,
    NodeTargets, Service, UpdateLoadBalancerNodesRequest, node_targets,
};
use outrigger_provider_sdk::{
    Answer, Context, Error, LoadBalancers, OfService as _, Server, Targets, answer,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use crate::harness::{Named, Rig, context, handshake, node};
use crate::route_tables::effects;

/// Load balancers with as many targets as the calls have; the name of a Service chooses the behaviour.
#[derive(Clone, Default)]
pub(crate) struct Balancers {
    pub(crate) capability: LoadBalancersCapability,
    pub(crate) made: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    pub(crate) steps: Option<mpsc::UnboundedSender<&'static str>>,
    pub(crate) second: Arc<Notify>,
}

fn ready() -> Answer {
    answer::ready([v1::LoadBalancerIngress {
        ip: "192.0.2.7".to_owned(),
        ..Default::default()
    }])
}

impl Balancers {
    pub(crate) fn with(capability: LoadBalancersCapability) -> Self {
        Self {
            capability,
            ..Self::default()
        }
    }

    fn set(&self, uid: &str, targets: &Targets) {
        let names = targets.iter().map(|node| node.name.clone()).collect();
        self.made.lock().insert(uid.to_owned(), names);
    }

    async fn behave(&self, ctx: &Context, service: &Service) -> Result<(), Error> {
        match service.name.as_str() {
            "panics" => panic!("secret of the vendor"),
            "refused" => Err(Error::invalid_annotation("no such thing").with_effects(effects())),
            name if name.starts_with("slow") => {
                sleep(Duration::from_secs(5)).await;
                Ok(())
            }
            "two-steps" => {
                let steps = self.steps.as_ref().unwrap();
                steps.send("created").unwrap();
                ctx.cancelled().await;
                assert!(ctx.check().is_err());
                self.second.notified().await;
                sleep(Duration::from_secs(1)).await;
                steps.send("tagged").unwrap();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl LoadBalancers for Balancers {
    fn capability(&self) -> LoadBalancersCapability {
        self.capability.clone()
    }

    async fn get_load_balancer(
        &self,
        _: &Context,
        request: &v1::GetLoadBalancerRequest,
        _: Option<&Targets>,
    ) -> Result<Answer, Error> {
        let made = self.made.lock().contains_key(&request.service().uid);
        Ok(if made { ready() } else { answer::absent() })
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        request: &EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        self.behave(ctx, request.service()).await?;
        self.set(&request.service().uid, targets);
        Ok(ready())
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        request: &UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        self.behave(ctx, service).await?;
        if !self.made.lock().contains_key(&service.uid) {
            return Ok(answer::absent());
        }
        self.set(&service.uid, targets);
        Ok(answer::ready([]))
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        self.behave(ctx, request.service()).await?;
        self.made.lock().remove(&request.service().uid);
        Ok(answer::absent())
    }
}

pub(crate) fn serve(balancers: &Balancers) -> Rig {
    Rig::serve(Server::new(Named::new()).load_balancers(balancers.clone()))
}

pub(crate) async fn client(rig: &Rig) -> LoadBalancersServiceClient<Channel> {
    let channel = rig.dial().await;
    handshake(channel.clone(), 1, 1).await.unwrap();
    LoadBalancersServiceClient::new(channel)
}

pub(crate) fn service(name: &str) -> v1::Service {
    v1::Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        ..v1::Service::default()
    }
}

pub(crate) fn inline(names: &[&str]) -> NodeTargets {
    let nodes = names.iter().map(|name| node(*name)).collect();
    let targets = Some(node_targets::Targets::Inline(InlineNodes { nodes }));
    NodeTargets { targets }
}

pub(crate) fn ensure(
    service: v1::Service,
    targets: impl Into<Option<NodeTargets>>,
) -> EnsureLoadBalancerRequest {
    EnsureLoadBalancerRequest {
        context: Some(context("req-1")),
        service: Some(service),
        targets: targets.into(),
        identity: None,
    }
}

pub(crate) async fn ensured(
    client: &mut LoadBalancersServiceClient<Channel>,
    name: &str,
) -> Result<LoadBalancerAnswer, Status> {
    let request = ensure(service(name), inline(&["n-1"]));
    let response = client.ensure_load_balancer(request).await?.into_inner();
    Ok(response.answer.unwrap())
}

pub(crate) async fn updated(
    client: &mut LoadBalancersServiceClient<Channel>,
    name: &str,
) -> Result<LoadBalancerAnswer, Status> {
    let request = UpdateLoadBalancerNodesRequest {
        context: Some(context("req-1")),
        service: Some(service(name)),
        targets: Some(inline(&["n-1", "n-2"])),
        identity: None,
    };
    let response = client.update_load_balancer_nodes(request).await?;
    Ok(response.into_inner().answer.unwrap())
}

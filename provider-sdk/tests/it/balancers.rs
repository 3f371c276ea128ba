//! Load balancers in memory, and a caller of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::{
    self, EnsureLoadBalancerRequest, InlineNodes, LoadBalancerAnswer, NodeTargets,
    UpdateLoadBalancerNodesRequest, node_targets,
};
use outrigger_provider_sdk::{
    Answer, ChangeAction, Context, Deleted, Effects, Ensured, Error, Ingress, LoadBalancer,
    LoadBalancerSink, LoadBalancers, LoadBalancersCapability, Observed, OwnedLoadBalancer,
    PlanOperation, PlannedChange, Server, Service, ServiceName, Targets, Updated,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use crate::harness::{Named, Rig, context, handshake, node};

/// Load balancers with as many targets as the calls have; the name of a Service chooses the behaviour.
#[derive(Clone, Default)]
pub(crate) struct Balancers {
    pub(crate) capability: LoadBalancersCapability,
    pub(crate) made: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    pub(crate) steps: Option<mpsc::UnboundedSender<&'static str>>,
    pub(crate) second: Arc<Notify>,
}

fn load_balancer(uid: &str) -> LoadBalancer {
    LoadBalancer::new(format!("lb-{uid}"))
        .with_name(uid)
        .with_ingress([Ingress::ip([192, 0, 2, 7].into())])
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
            "refused" => Err(Error::invalid_annotation("no such thing")
                .with_effects(Effects::default().with_remove_annotations(["x.test/y".to_owned()]))),
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
        service: &Service,
        _: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        let made = self.made.lock().contains_key(&service.uid);
        Ok(if made {
            Observed::Ready(load_balancer(&service.uid)).into()
        } else {
            Observed::Absent.into()
        })
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        self.behave(ctx, service).await?;
        self.set(&service.uid, targets);
        Ok(Ensured::Ready(load_balancer(&service.uid)).into())
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        self.behave(ctx, service).await?;
        if !self.made.lock().contains_key(&service.uid) {
            return Ok(Updated::Absent.into());
        }
        self.set(&service.uid, targets);
        Ok(Updated::ready(None).into())
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        self.behave(ctx, service).await?;
        self.made.lock().remove(&service.uid);
        Ok(Deleted::Absent.into())
    }

    async fn list_load_balancers(
        &self,
        _: &Context,
        load_balancers: &mut LoadBalancerSink,
    ) -> Result<(), Error> {
        let made: Vec<_> = self.made.lock().keys().cloned().collect();
        for uid in made {
            let tag = ServiceName::new("", "", uid.as_str());
            let owned = OwnedLoadBalancer::new(load_balancer(&uid)).with_service(tag);
            load_balancers.send(owned).await?;
        }
        Ok(())
    }

    async fn plan_load_balancer(
        &self,
        _: &Context,
        service: &Service,
        operation: &PlanOperation,
    ) -> Result<Vec<PlannedChange>, Error> {
        let (action, summary) = match operation {
            PlanOperation::Ensure(targets) => {
                (ChangeAction::Create, format!("{} targets", targets.len()))
            }
            PlanOperation::Delete => (ChangeAction::Delete, String::new()),
            other => unreachable!("{other:?}"),
        };
        Ok(vec![
            PlannedChange::new(action, "load-balancer", summary)
                .with_resource_id(service.uid.clone()),
        ])
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

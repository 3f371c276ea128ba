//! Load balancers in memory, changed by several calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::{
    self, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, InlineNodes, LoadBalancerAnswer,
    LoadBalancersCapability, NodeTargets, Service, UpdateLoadBalancerNodesRequest, node_targets,
};
use outrigger_provider_sdk::{
    Answer, Context, Error, LoadBalancers, OfService as _, Server, Targets, answer,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::harness::{Named, Rig, context, handshake, node, reason};

/// Load balancers with as many targets as the calls have; the name of a Service chooses the behaviour.
#[derive(Clone, Default)]
struct Balancers {
    capability: LoadBalancersCapability,
    made: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    steps: Option<mpsc::UnboundedSender<&'static str>>,
    second: Arc<Notify>,
}

fn ready() -> Answer {
    answer::ready([v1::LoadBalancerIngress {
        ip: "192.0.2.7".to_owned(),
        ..Default::default()
    }])
}

impl Balancers {
    fn with(capability: LoadBalancersCapability) -> Self {
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

fn serve(balancers: &Balancers) -> Rig {
    Rig::serve(Server::new(Named::new()).load_balancers(balancers.clone()))
}

async fn client(rig: &Rig) -> LoadBalancersServiceClient<Channel> {
    let channel = rig.dial().await;
    handshake(channel.clone(), 1, 1).await.unwrap();
    LoadBalancersServiceClient::new(channel)
}

fn service(name: &str) -> v1::Service {
    v1::Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        ..v1::Service::default()
    }
}

fn inline(names: &[&str]) -> NodeTargets {
    let nodes = names.iter().map(|name| node(*name)).collect();
    let targets = Some(node_targets::Targets::Inline(InlineNodes { nodes }));
    NodeTargets { targets }
}

async fn ensured(
    client: &mut LoadBalancersServiceClient<Channel>,
    name: &str,
) -> Result<LoadBalancerAnswer, Status> {
    let request = EnsureLoadBalancerRequest {
        context: Some(context("req-1")),
        service: Some(service(name)),
        targets: Some(inline(&["n-1"])),
        identity: None,
    };
    let response = client.ensure_load_balancer(request).await?.into_inner();
    Ok(response.answer.unwrap())
}

async fn updated(
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

/// Ensure, update and delete together.
#[tokio::test(start_paused = true)]
async fn a_provider_of_one_at_a_time_changes_one_at_a_time() {
    for (max_in_flight, took) in [(1, 20), (2, 10), (0, 5)] {
        let rig = serve(&Balancers::with(LoadBalancersCapability {
            max_in_flight,
            ..Default::default()
        }));
        let [mut first, mut second, mut other, mut third] = [
            client(&rig).await,
            client(&rig).await,
            client(&rig).await,
            client(&rig).await,
        ];
        let delete = DeleteLoadBalancerRequest {
            context: Some(context("r")),
            service: Some(service("slow-4")),
            identity: None,
        };
        let started = Instant::now();
        let (a, b, c, d) = tokio::join!(
            ensured(&mut first, "slow-1"),
            updated(&mut second, "slow-2"),
            updated(&mut other, "slow-3"),
            third.delete_load_balancer(delete),
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
        assert_eq!(started.elapsed().as_secs(), took, "{max_in_flight} at once");
    }
}

/// A handler that outlives its caller still holds its key.
#[tokio::test(start_paused = true)]
async fn the_next_call_waits_for_a_handler_whose_caller_went_away() {
    let (steps, mut seen) = mpsc::unbounded_channel();
    let balancers = Balancers {
        steps: Some(steps),
        ..Balancers::default()
    };
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    tokio::select! {
        ended = ensured(&mut client, "two-steps") => panic!("{ended:?}"),
        step = seen.recv() => assert_eq!(step, Some("created")),
    }
    let mut delete = Request::new(DeleteLoadBalancerRequest {
        context: Some(context("r")),
        service: Some(Service {
            name: "web".to_owned(),
            ..service("two-steps")
        }),
        identity: None,
    });
    delete.set_timeout(Duration::from_mins(1));
    let early = client.delete_load_balancer(delete).await.unwrap_err();
    assert_eq!(reason(&early), "OPERATION_IN_PROGRESS");
    balancers.second.notify_one();
    let step = timeout(Duration::from_secs(5), seen.recv()).await;
    assert_eq!(step.expect("the handler was dropped"), Some("tagged"));
}

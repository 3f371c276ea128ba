//! Uploads of node sets, seen from the other end of the wire.

use std::time::Duration;

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::node_sets_service_client::NodeSetsServiceClient;
use outrigger_api::v1::{
    self, NodeSetRef, NodeTargets, PlanLoadBalancerRequest, SyncNodeSetRequest, node_targets,
};
use outrigger_provider_sdk::{Answer, Context, Error, LoadBalancers, Server, Targets, answer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::harness::{Named, Rig, context, handshake, node, reason};

/// Answers plans with the names of the targets.
struct Names;

impl LoadBalancers for Names {
    fn capability(&self) -> v1::LoadBalancersCapability {
        v1::LoadBalancersCapability {
            plan: true,
            ..Default::default()
        }
    }

    async fn get_load_balancer(
        &self,
        _: &Context,
        _: &v1::GetLoadBalancerRequest,
        _: Option<&Targets>,
    ) -> Result<Answer, Error> {
        Ok(answer::absent())
    }

    async fn ensure_load_balancer(
        &self,
        _: &Context,
        _: &v1::EnsureLoadBalancerRequest,
        _: &Targets,
    ) -> Result<Answer, Error> {
        Ok(answer::not_managed())
    }

    async fn update_load_balancer_nodes(
        &self,
        _: &Context,
        _: &v1::UpdateLoadBalancerNodesRequest,
        _: &Targets,
    ) -> Result<Answer, Error> {
        Ok(answer::absent())
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        _: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        Ok(answer::absent())
    }

    async fn plan_load_balancer(
        &self,
        _: &Context,
        _: &PlanLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Vec<v1::PlannedChange>, Error> {
        let targets = targets.cloned().unwrap_or_default();
        let change = |node: &v1::Node| v1::PlannedChange {
            resource_id: node.name.clone(),
            summary: targets.revision().unwrap_or_default().to_owned(),
            ..Default::default()
        };
        Ok(targets.iter().map(change).collect())
    }
}

struct Caller {
    sets: NodeSetsServiceClient<Channel>,
    load_balancers: LoadBalancersServiceClient<Channel>,
}

impl Caller {
    async fn dial(rig: &Rig) -> Self {
        let channel = rig.dial().await;
        handshake(channel.clone(), 1, 1).await.unwrap();
        Self {
            sets: NodeSetsServiceClient::new(channel.clone()),
            load_balancers: LoadBalancersServiceClient::new(channel),
        }
    }

    async fn sync(&mut self, message: SyncNodeSetRequest) -> Result<String, Status> {
        let stream = tokio_stream::once(message);
        Ok(self.sets.sync_node_set(stream).await?.into_inner().revision)
    }

    /// The names of the targets that a call by reference gets.
    async fn resolve(&mut self, revision: &str) -> Result<Vec<String>, Status> {
        let request = PlanLoadBalancerRequest {
            context: Some(context("r")),
            operation: 1,
            service: Some(v1::Service {
                namespace: "default".to_owned(),
                name: "web".to_owned(),
                uid: "u".to_owned(),
                ..v1::Service::default()
            }),
            targets: Some(NodeTargets {
                targets: Some(node_targets::Targets::Ref(NodeSetRef {
                    revision: revision.to_owned(),
                    only: None,
                })),
            }),
            identity: None,
        };
        let changes = self
            .load_balancers
            .plan_load_balancer(request)
            .await?
            .into_inner()
            .changes;
        assert!(changes.iter().all(|change| change.summary == revision));
        Ok(changes
            .into_iter()
            .map(|change| change.resource_id)
            .collect())
    }
}

/// All of a set.
fn set(revision: &str, nodes: &[&str]) -> SyncNodeSetRequest {
    SyncNodeSetRequest {
        context: Some(context("r")),
        nodes: nodes.iter().map(|name| node(*name)).collect(),
        complete: true,
        revision: revision.to_owned(),
        node_count: nodes.len() as u32,
    }
}

fn rig() -> Rig {
    Rig::serve(Server::new(Named::new()).load_balancers(Names))
}

/// NDS-03: some servers see a cancelled upload as a normal end of stream.
#[tokio::test(start_paused = true)]
async fn an_upload_that_is_cancelled_changes_nothing() {
    let rig = rig();
    let mut caller = Caller::dial(&rig).await;
    caller.sync(set("r1", &["a"])).await.unwrap();
    let (messages, stream) = mpsc::channel(8);
    let part = SyncNodeSetRequest {
        complete: false,
        ..set("", &["b"])
    };
    messages.send(part).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(stream));
    request.set_timeout(Duration::from_secs(20));
    let ended = caller.sets.sync_node_set(request).await.unwrap_err();
    // tonic calls its own deadline that.
    assert!(matches!(
        ended.code(),
        Code::Cancelled | Code::DeadlineExceeded
    ));
    drop(messages);
    assert_eq!(
        reason(&caller.resolve("r2").await.unwrap_err()),
        "NODE_SET_UNKNOWN"
    );
    assert_eq!(caller.resolve("r1").await.unwrap(), ["a"]);
}

#[tokio::test]
async fn node_sets_are_offered_with_load_balancers_unless_they_are_not_wanted() {
    let offered = async |server: Server| {
        let rig = Rig::serve(server);
        let answer = handshake(rig.dial().await, 1, 1).await.unwrap();
        let mut caller = Caller::dial(&rig).await;
        let synced = caller.sync(set("r1", &[])).await;
        (answer.capabilities.unwrap().node_sets, synced)
    };
    let server = || Server::new(Named::new()).load_balancers(Names);
    let (offers, synced) = offered(server()).await;
    assert!(offers.is_some() && synced.unwrap() == "r1");
    let (offers, synced) = offered(server().without_node_sets()).await;
    assert_eq!(
        (offers, reason(&synced.unwrap_err()).as_str()),
        (None, "CAPABILITY_DISABLED")
    );
}

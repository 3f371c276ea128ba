//! Uploads of node sets, seen from the other end of the wire.

use std::time::Duration;

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::node_sets_service_client::NodeSetsServiceClient;
use outrigger_api::v1::{
    self, NodeSetBegin, NodeSetChunk, NodeSetCommit, NodeSetRef, NodeTargets,
    PlanLoadBalancerRequest, SyncNodeSetRequest, node_targets, sync_node_set_request::Part,
};
use outrigger_provider_sdk::{
    Answer, ChangeAction, Context, Deleted, Ensured, Error, LoadBalancers, LoadBalancersCapability,
    Observed, PlanOperation, PlannedChange, Server, Service, Targets, Updated,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::harness::{Named, Rig, context, handshake, node, reason};

/// Answers plans with the names of the targets.
struct Names;

impl LoadBalancers for Names {
    fn capability(&self) -> LoadBalancersCapability {
        LoadBalancersCapability::default().with_plan(true)
    }

    async fn get_load_balancer(
        &self,
        _: &Context,
        _: &Service,
        _: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        Ok(Observed::Absent.into())
    }

    async fn ensure_load_balancer(
        &self,
        _: &Context,
        _: &Service,
        _: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        Ok(Ensured::NotManaged.into())
    }

    async fn update_load_balancer_nodes(
        &self,
        _: &Context,
        _: &Service,
        _: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        Ok(Updated::Absent.into())
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        _: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        Ok(Deleted::Absent.into())
    }

    async fn plan_load_balancer(
        &self,
        _: &Context,
        _: &Service,
        operation: &PlanOperation,
    ) -> Result<Vec<PlannedChange>, Error> {
        let PlanOperation::Ensure(targets) = operation else {
            return Ok(Vec::new());
        };
        Ok(targets
            .iter()
            .map(|node| {
                PlannedChange::new(
                    ChangeAction::Create,
                    "target",
                    targets.revision().unwrap_or_default().to_owned(),
                )
                .with_resource_id(node.name.as_str())
            })
            .collect())
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

    async fn sync(&mut self, parts: Vec<Part>) -> Result<String, Status> {
        let parts = parts
            .into_iter()
            .map(|part| SyncNodeSetRequest { part: Some(part) });
        let stream = tokio_stream::iter(parts.collect::<Vec<_>>());
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
                    set_id: "all".to_owned(),
                    revision: revision.to_owned(),
                })),
            }),
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

fn begin(base: &str, revision: &str, node_count: u32) -> Part {
    Part::Begin(NodeSetBegin {
        context: Some(context("r")),
        set_id: "all".to_owned(),
        base_revision: base.to_owned(),
        revision: revision.to_owned(),
        node_count,
    })
}

fn chunk(upserts: &[&str], removals: &[&str]) -> Part {
    Part::Chunk(NodeSetChunk {
        upserts: upserts.iter().map(|name| node(*name)).collect(),
        removals: removals.iter().map(|name| (*name).to_owned()).collect(),
    })
}

fn commit(change_count: u32) -> Part {
    Part::Commit(NodeSetCommit { change_count })
}

fn rig() -> Rig {
    Rig::serve(Server::new(Named::new()).load_balancers(Names))
}

/// NDS-01, NDS-02, NDS-05, NDS-06.
#[tokio::test]
async fn a_call_gets_the_nodes_of_the_revision_that_it_names() {
    let rig = rig();
    let mut caller = Caller::dial(&rig).await;
    let unknown = caller.resolve("r1").await.unwrap_err();
    assert_eq!(
        (unknown.code(), reason(&unknown).as_str()),
        (Code::FailedPrecondition, "NODE_SET_UNKNOWN")
    );
    let snapshot = vec![
        begin("", "r1", 3),
        chunk(&["b", "a"], &[]),
        chunk(&["c"], &[]),
        commit(3),
    ];
    assert_eq!(caller.sync(snapshot).await.unwrap(), "r1");
    assert_eq!(caller.resolve("r1").await.unwrap(), ["a", "b", "c"]);
    let delta = vec![begin("r1", "r2", 3), chunk(&["d"], &["b"]), commit(2)];
    caller.sync(delta).await.unwrap();
    assert_eq!(caller.resolve("r2").await.unwrap(), ["a", "c", "d"]);
    assert_eq!(caller.resolve("r1").await.unwrap(), ["a", "b", "c"]);
    let mismatch = caller
        .sync(vec![begin("r0", "r3", 0), commit(0)])
        .await
        .unwrap_err();
    assert_eq!(reason(&mismatch), "NODE_SET_BASE_MISMATCH");
}

/// NDS-04 and parts out of order.
#[tokio::test]
async fn an_incomplete_upload_is_not_applied() {
    let rig = rig();
    let mut caller = Caller::dial(&rig).await;
    for (parts, says) in [
        (vec![], "does not start with begin"),
        (vec![chunk(&["a"], &[])], "does not start with begin"),
        (
            vec![begin("", "r1", 1), chunk(&["a"], &[])],
            "without commit",
        ),
        (vec![begin("", "r1", 1), begin("", "r1", 1)], "begins twice"),
        (
            vec![begin("", "r1", 2), chunk(&["a"], &[]), commit(1)],
            "node_count is 2",
        ),
    ] {
        let refused = caller.sync(parts).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_REQUEST", "{refused}");
        assert!(refused.message().contains(says), "{says:?}: {refused}");
    }
    assert!(caller.resolve("r1").await.is_err());
}

/// NDS-03: some servers see a cancelled upload as a normal end of stream.
#[tokio::test(start_paused = true)]
async fn an_upload_that_is_cancelled_changes_nothing() {
    let rig = rig();
    let mut caller = Caller::dial(&rig).await;
    caller
        .sync(vec![begin("", "r1", 1), chunk(&["a"], &[]), commit(1)])
        .await
        .unwrap();
    let (parts, stream) = mpsc::channel(8);
    for part in [begin("r1", "r2", 2), chunk(&["b"], &[])] {
        parts
            .send(SyncNodeSetRequest { part: Some(part) })
            .await
            .unwrap();
    }
    let mut request = Request::new(ReceiverStream::new(stream));
    request.set_timeout(Duration::from_secs(20));
    let ended = caller.sets.sync_node_set(request).await.unwrap_err();
    // tonic calls its own deadline that.
    assert!(matches!(
        ended.code(),
        Code::Cancelled | Code::DeadlineExceeded
    ));
    drop(parts);
    assert_eq!(
        reason(&caller.resolve("r2").await.unwrap_err()),
        "NODE_SET_UNKNOWN"
    );
    assert_eq!(caller.resolve("r1").await.unwrap(), ["a"]);
}

/// NDS-08.
#[tokio::test]
async fn another_process_knows_no_revision() {
    let first = rig();
    let mut caller = Caller::dial(&first).await;
    caller
        .sync(vec![begin("", "r1", 0), commit(0)])
        .await
        .unwrap();
    assert!(caller.resolve("r1").await.unwrap().is_empty());
    let second = rig();
    let mut caller = Caller::dial(&second).await;
    assert_eq!(
        reason(&caller.resolve("r1").await.unwrap_err()),
        "NODE_SET_UNKNOWN"
    );
}

#[tokio::test]
async fn node_sets_are_offered_with_load_balancers_unless_they_are_not_wanted() {
    let offered = async |server: Server| {
        let rig = Rig::serve(server);
        let answer = handshake(rig.dial().await, 1, 1).await.unwrap();
        let mut caller = Caller::dial(&rig).await;
        let synced = caller.sync(vec![begin("", "r1", 0), commit(0)]).await;
        let offered = answer.capabilities.unwrap().node_sets;
        let offered = offered.map(|offered| (offered.max_sets, offered.deltas));
        (offered, synced)
    };
    let (named, synced) = offered(Server::new(Named::new()).load_balancers(Names)).await;
    assert_eq!((named, synced.unwrap().as_str()), (Some((1, true)), "r1"));
    let server = Server::new(Named::new()).load_balancers(Names);
    let (named, synced) = offered(server.max_node_sets(4)).await;
    assert_eq!((named, synced.unwrap().as_str()), (Some((4, true)), "r1"));
    let server = Server::new(Named::new())
        .load_balancers(Names)
        .without_node_sets();
    let (named, synced) = offered(server).await;
    assert_eq!(
        (named, reason(&synced.unwrap_err()).as_str()),
        (None, "CAPABILITY_DISABLED")
    );
}

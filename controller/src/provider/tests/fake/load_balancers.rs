//! Its load balancers and node sets.

use std::{
    collections::{BTreeSet, HashMap},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use outrigger_api::{
    ItemResult,
    v1::{
        self, load_balancer_result::Outcome, load_balancers_service_server::LoadBalancersService,
        node_sets_service_server::NodeSetsService, node_targets, sync_node_set_request::Part,
    },
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tonic::{Code, Request, Response, Status, Streaming};

use super::{Fake, Reply, Script, refusal};

pub(super) type Messages<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;
type Stream<Q, A> = Arc<dyn Fn(&Q) -> Vec<Step<A>> + Send + Sync>;

/// The provider's next step in a stream.
pub(in crate::provider) enum Step<T> {
    Say(T),
    Wait(Duration),
    Fail(Status),
    Hang,
}

pub(super) fn play<T: Send + 'static>(steps: Vec<Step<T>>) -> Messages<T> {
    let play = async |step| match step {
        Step::Say(message) => Some(Ok(message)),
        Step::Wait(time) => {
            sleep(time).await;
            None
        }
        Step::Fail(status) => Some(Err(status)),
        Step::Hang => std::future::pending().await,
    };
    Box::pin(futures::stream::iter(steps).filter_map(play))
}

/// One method: what it was asked, and what it says.
pub(in crate::provider) struct Method<Q, A> {
    calls: Mutex<Vec<(Instant, Q)>>,
    script: Mutex<Script<Q, A>>,
}

impl<Q: Clone, A> Method<Q, A> {
    pub(super) fn new(script: impl Fn(&Q) -> Reply<A> + Send + Sync + 'static) -> Self {
        Self {
            calls: Mutex::default(),
            script: Mutex::new(Arc::new(script)),
        }
    }

    pub(in crate::provider) fn on(&self, script: impl Fn(&Q) -> Reply<A> + Send + Sync + 'static) {
        *self.script.lock() = Arc::new(script);
    }

    pub(in crate::provider) fn calls(&self) -> Vec<(Instant, Q)> {
        self.calls.lock().clone()
    }

    pub(super) async fn answer(&self, request: Request<Q>) -> Result<Response<A>, Status> {
        assert!(request.metadata().contains_key("grpc-timeout"));
        let request = request.into_inner();
        let reply = Arc::clone(&*self.script.lock())(&request);
        self.calls.lock().push((Instant::now(), request));
        reply.play().await
    }
}

/// A whole upload, or as much of it as came.
#[derive(Clone, Debug, Default)]
pub(in crate::provider) struct Uploaded {
    pub(in crate::provider) begin: v1::NodeSetBegin,
    pub(in crate::provider) chunks: Vec<v1::NodeSetChunk>,
    pub(in crate::provider) commit: Option<v1::NodeSetCommit>,
}

pub(in crate::provider) struct Balancers {
    pub(in crate::provider) get: Method<v1::GetLoadBalancerRequest, v1::LoadBalancerAnswer>,
    pub(in crate::provider) ensure: Method<v1::EnsureLoadBalancerRequest, v1::LoadBalancerAnswer>,
    pub(in crate::provider) delete: Method<v1::DeleteLoadBalancerRequest, v1::LoadBalancerAnswer>,
    pub(in crate::provider) plan: Method<v1::PlanLoadBalancerRequest, v1::PlanLoadBalancerResponse>,
    pub(in crate::provider) updates: Mutex<Vec<(Instant, v1::UpdateLoadBalancerNodesRequest)>>,
    on_update:
        Mutex<Stream<v1::UpdateLoadBalancerNodesRequest, v1::UpdateLoadBalancerNodesResponse>>,
    on_list: Mutex<Vec<Step<v1::ListLoadBalancersResponse>>>,
    pub(in crate::provider) uploads: Mutex<Vec<(Instant, Uploaded)>>,
    on_sync: Mutex<Script<v1::NodeSetBegin, ()>>,
    /// Instead of the revision that was uploaded.
    pub(in crate::provider) takes_as: Mutex<Option<String>>,
    /// Names by revision.
    held: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Default for Balancers {
    fn default() -> Self {
        Self {
            get: Method::new(|_| {
                Reply::Say(v1::LoadBalancerAnswer {
                    disposition: v1::LoadBalancerDisposition::Absent.into(),
                    ..v1::LoadBalancerAnswer::default()
                })
            }),
            ensure: Method::new(|_| Reply::Say(ready())),
            delete: Method::new(|_| {
                Reply::Say(v1::LoadBalancerAnswer {
                    disposition: v1::LoadBalancerDisposition::Absent.into(),
                    ..v1::LoadBalancerAnswer::default()
                })
            }),
            plan: Method::new(|_| Reply::Say(v1::PlanLoadBalancerResponse::default())),
            updates: Mutex::default(),
            on_update: Mutex::new(Arc::new(|request| {
                request.items.iter().map(|s| say(taken(s))).collect()
            })),
            on_list: Mutex::default(),
            uploads: Mutex::default(),
            on_sync: Mutex::new(Arc::new(|_| Reply::Say(()))),
            takes_as: Mutex::default(),
            held: Mutex::default(),
        }
    }
}

impl Balancers {
    pub(in crate::provider) fn on_update(
        &self,
        script: impl Fn(
            &v1::UpdateLoadBalancerNodesRequest,
        ) -> Vec<Step<v1::UpdateLoadBalancerNodesResponse>>
        + Send
        + Sync
        + 'static,
    ) {
        *self.on_update.lock() = Arc::new(script);
    }

    pub(in crate::provider) fn on_list(&self, steps: Vec<Step<v1::ListLoadBalancersResponse>>) {
        *self.on_list.lock() = steps;
    }

    /// Runs before an upload is taken.
    pub(in crate::provider) fn on_sync(
        &self,
        script: impl Fn(&v1::NodeSetBegin) -> Reply<()> + Send + Sync + 'static,
    ) {
        *self.on_sync.lock() = Arc::new(script);
    }

    /// As a new process does.
    pub(in crate::provider) fn forget_node_sets(&self) {
        self.held.lock().clear();
    }

    /// The names of the targets.
    pub(in crate::provider) fn resolve(
        &self,
        targets: Option<v1::NodeTargets>,
    ) -> Result<BTreeSet<String>, Status> {
        match targets.and_then(|targets| targets.targets) {
            None => Err(refusal(Code::InvalidArgument, "INVALID_REQUEST", None)),
            Some(node_targets::Targets::Inline(inline)) => {
                Ok(inline.nodes.into_iter().map(|node| node.name).collect())
            }
            Some(node_targets::Targets::Ref(named)) => {
                let held = self.held.lock().get(&named.revision).cloned();
                held.ok_or_else(|| refusal(Code::FailedPrecondition, "NODE_SET_UNKNOWN", None))
            }
        }
    }

    fn commit(&self, uploaded: &Uploaded) -> Result<(), Status> {
        let mut held = self.held.lock();
        let base = &uploaded.begin.base_revision;
        let mut names = match &**base {
            "" => BTreeSet::new(),
            base => held
                .get(base)
                .cloned()
                .ok_or_else(|| refusal(Code::FailedPrecondition, "NODE_SET_BASE_MISMATCH", None))?,
        };
        let mut changes = 0;
        for chunk in &uploaded.chunks {
            changes += chunk.upserts.len() + chunk.removals.len();
            names.extend(chunk.upserts.iter().map(|node| node.name.clone()));
            for name in &chunk.removals {
                assert!(names.remove(name), "{name} is not there");
            }
        }
        let commit = uploaded.commit.as_ref().expect("a commit");
        assert_eq!(commit.change_count as usize, changes);
        assert_eq!(uploaded.begin.node_count as usize, names.len());
        held.insert(uploaded.begin.revision.clone(), names);
        Ok(())
    }
}

/// Ready, under one address.
pub(in crate::provider) fn ready() -> v1::LoadBalancerAnswer {
    v1::LoadBalancerAnswer {
        disposition: v1::LoadBalancerDisposition::Ready.into(),
        status: Some(v1::LoadBalancerStatus {
            ingress: vec![v1::LoadBalancerIngress {
                ip: "192.0.2.1".into(),
                ..v1::LoadBalancerIngress::default()
            }],
        }),
        ..v1::LoadBalancerAnswer::default()
    }
}

/// The new targets of a Service were taken.
pub(in crate::provider) fn taken(service: &v1::Service) -> v1::LoadBalancerResult {
    outcome(
        service,
        Outcome::Found(v1::LoadBalancerAnswer {
            disposition: v1::LoadBalancerDisposition::Ready.into(),
            ..v1::LoadBalancerAnswer::default()
        }),
    )
}

pub(in crate::provider) fn outcome(
    service: &v1::Service,
    outcome: Outcome,
) -> v1::LoadBalancerResult {
    ItemResult::new(service.uid.clone(), outcome)
}

/// A result without an outcome.
pub(in crate::provider) fn unsaid(service: &v1::Service) -> v1::LoadBalancerResult {
    v1::LoadBalancerResult {
        outcome: None,
        ..taken(service)
    }
}

/// A message with one result.
pub(in crate::provider) fn say(
    result: v1::LoadBalancerResult,
) -> Step<v1::UpdateLoadBalancerNodesResponse> {
    Step::Say(v1::UpdateLoadBalancerNodesResponse {
        results: vec![result],
    })
}

#[tonic::async_trait]
impl LoadBalancersService for Fake {
    async fn get_load_balancer(
        &self,
        request: Request<v1::GetLoadBalancerRequest>,
    ) -> Result<Response<v1::GetLoadBalancerResponse>, Status> {
        let response = self.balancers.get.answer(request).await?;
        Ok(response.map(|answer| v1::GetLoadBalancerResponse {
            answer: Some(answer),
        }))
    }

    async fn ensure_load_balancer(
        &self,
        request: Request<v1::EnsureLoadBalancerRequest>,
    ) -> Result<Response<v1::EnsureLoadBalancerResponse>, Status> {
        let targets = request.get_ref().targets.clone();
        let response = self.balancers.ensure.answer(request).await?;
        self.balancers.resolve(targets)?;
        Ok(response.map(|answer| v1::EnsureLoadBalancerResponse {
            answer: Some(answer),
        }))
    }

    async fn update_load_balancer_nodes(
        &self,
        request: Request<v1::UpdateLoadBalancerNodesRequest>,
    ) -> Result<Response<Messages<v1::UpdateLoadBalancerNodesResponse>>, Status> {
        let request = request.into_inner();
        let steps = Arc::clone(&*self.balancers.on_update.lock())(&request);
        let targets = request.targets.clone();
        self.balancers
            .updates
            .lock()
            .push((Instant::now(), request));
        self.balancers.resolve(targets)?;
        Ok(Response::new(play(steps)))
    }

    async fn delete_load_balancer(
        &self,
        request: Request<v1::DeleteLoadBalancerRequest>,
    ) -> Result<Response<v1::DeleteLoadBalancerResponse>, Status> {
        let response = self.balancers.delete.answer(request).await?;
        Ok(response.map(|answer| v1::DeleteLoadBalancerResponse {
            answer: Some(answer),
        }))
    }

    async fn list_load_balancers(
        &self,
        _: Request<v1::ListLoadBalancersRequest>,
    ) -> Result<Response<Messages<v1::ListLoadBalancersResponse>>, Status> {
        let steps = std::mem::take(&mut *self.balancers.on_list.lock());
        Ok(Response::new(play(steps)))
    }

    async fn plan_load_balancer(
        &self,
        request: Request<v1::PlanLoadBalancerRequest>,
    ) -> Result<Response<v1::PlanLoadBalancerResponse>, Status> {
        self.balancers.plan.answer(request).await
    }
}

#[tonic::async_trait]
impl NodeSetsService for Fake {
    async fn sync_node_set(
        &self,
        request: Request<Streaming<v1::SyncNodeSetRequest>>,
    ) -> Result<Response<v1::SyncNodeSetResponse>, Status> {
        let came = Instant::now();
        let mut stream = request.into_inner();
        let mut uploaded = Uploaded::default();
        while let Some(message) = stream.message().await? {
            match message.part.expect("a part") {
                Part::Begin(begin) => uploaded.begin = begin,
                Part::Chunk(chunk) => uploaded.chunks.push(chunk),
                Part::Commit(commit) => uploaded.commit = Some(commit),
            }
        }
        let reply = Arc::clone(&*self.balancers.on_sync.lock())(&uploaded.begin);
        self.balancers.uploads.lock().push((came, uploaded.clone()));
        reply.play().await?;
        self.balancers.commit(&uploaded)?;
        let takes_as = self.balancers.takes_as.lock().clone();
        let revision = takes_as.unwrap_or(uploaded.begin.revision);
        Ok(Response::new(v1::SyncNodeSetResponse { revision }))
    }
}

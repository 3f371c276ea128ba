//! The loop kubelet-serving-approving: approves the requests of kubelets for serving certificates, if the cloud reports
//! every name in them for the kubelet's machine.
//!
//! ```text
//!  store ─► queue ─► core::csr::step ─► Ask ─► provider: instances().look_up (batched)
//!                         │                          │ checked answer
//!                         ▼                          ▼
//!                       Leave, Await        core::csr::decide ─► Approve: one PATCH
//!                         └────────────────────────────┴───────► Await: one event, tried again
//! ```
//!
//! It denies nothing, so that another approver, or an operator, can approve what it leaves alone. It is the smallest whole
//! loop: one file has its subscription, its state, its metrics and its [`ControlLoop`].
//!
//! RBAC: `list`, `watch`, `get` on `certificatesigningrequests`, `patch` on their `approval`, `approve` on the signer
//! `kubernetes.io/kubelet-serving`; `create`, `patch` on `events`.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc, time::Duration};

use outrigger_core::{
    csr::{CsrProblem, CsrStep, CsrView, ServingRequest, decide, step},
    error_class::Requeue,
    event::EventContent,
    node::{
        NodeView,
        instance::{Lookup, is_same_question},
    },
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Semaphore;
use tracing::{info, warn};

use crate::{
    context::{LoopContext, not_written},
    control_loop::{ControlLoop, LoopInputs, Task},
    queue::{Outcome, Priority, QueueMetrics},
};
use outrigger_kube::{
    csrs::Approval,
    events::ObjectRef,
    store::{Change, Store},
    writer::ObjectWriter,
};
use outrigger_provider::{Error, LookupPurpose};
use outrigger_runtime::{
    backoff::Backoff, clock::time_of_day, log_repeated, metric_families, telemetry::Labelled,
};

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "kubelet-serving-approving-controller";
/// The component of its events.
pub const COMPONENT: &str = "kubelet-serving-approving";

/// Why a request is left alone.
const NOT_APPROVED: &str = "ServingCertificateNotApproved";

/// Requests that are written at once.
const WRITERS: usize = 8;
/// A Node that has no provider ID for so long is worth an event: it is usually being initialised.
const INITIALIZED_WITHIN: Duration = Duration::from_mins(1);
/// So long a kubelet waits for a certificate before it makes another request.
const PATIENCE: Duration = Duration::from_mins(15);

/// The loop kubelet-serving-approving.
pub struct KubeletServing {
    context: LoopContext<Arc<str>>,
    csrs: Arc<Store<CsrView>>,
    writer: ObjectWriter<CsrView>,
    metrics: CsrMetrics,
    state: Arc<CsrState>,
    writing: Semaphore,
}

/// The last event about each request, so that it is not repeated with each try.
#[derive(Debug, Default)]
pub struct CsrState(Mutex<HashMap<Arc<str>, CsrProblem>>);

impl CsrState {
    /// True if `csrs` still shows the request, and `problem` differs from the last one about it.
    fn is_news(&self, csrs: &Store<CsrView>, csr: &CsrView, problem: &CsrProblem) -> bool {
        let mut last = self.0.lock();
        // Under the lock: its decision or deletion is handled after this, or has been.
        csrs.newest(csr).is_some()
            && last.insert(Arc::clone(&csr.name), problem.clone()).as_ref() != Some(problem)
    }

    fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

/// Subscribes the loop to `csrs`.
pub fn subscribe(csrs: &Store<CsrView>, metrics: &QueueMetrics) -> LoopInputs<Arc<str>, CsrState> {
    let backoff = Backoff::default().with_jitter();
    let inputs = LoopInputs::<_, CsrState>::new("certificatesigningrequests", backoff, metrics);
    let LoopInputs { queue, state } = inputs.clone();
    csrs.subscribe(move |change: &Change<'_, CsrView>, origin| {
        // A lease term begins with all requests.
        let Some(state) = state.current() else {
            return;
        };
        match change {
            Change::Added(csr) | Change::Updated(_, csr) if csr.pending.is_some() => {
                queue.add(Arc::clone(&csr.name), origin.into());
            }
            Change::Added(csr) | Change::Updated(_, csr) | Change::Deleted(csr) => {
                queue.remove(&csr.name);
                state.forget(&csr.name);
            }
        }
    });
    inputs
}

impl KubeletServing {
    /// The loop over `csrs`, for one lease term.
    pub fn new(
        context: LoopContext<Arc<str>>,
        csrs: Arc<Store<CsrView>>,
        metrics: CsrMetrics,
    ) -> Self {
        Self {
            writer: ObjectWriter::new(context.api.clone(), Arc::clone(&csrs)),
            context,
            csrs,
            metrics,
            state: Arc::default(),
            writing: Semaphore::new(WRITERS),
        }
    }

    async fn sync(&self, name: &str) -> Outcome {
        let Some(csr) = self.csrs.get(name) else {
            return Outcome::Done;
        };
        let Some(session) = self.context.provider.session() else {
            return Outcome::Retry;
        };
        let Some(offered) = &session.instances else {
            // Another process serves none: the next one is asked.
            return Outcome::Done;
        };
        let node = |name: &str| self.context.nodes.get(name);
        match step(&csr, node, &offered.prefixes, offered.without_provider_id) {
            CsrStep::Nothing => Outcome::Done,
            CsrStep::Leave(problem) => {
                self.leave(&csr, problem);
                Outcome::Done
            }
            CsrStep::Await(problem) => self.try_again(&csr, &problem),
            CsrStep::Ask(request, node) => self.ask(&csr, request, node).await,
        }
    }

    async fn ask(
        &self,
        csr: &Arc<CsrView>,
        request: &ServingRequest,
        node: Arc<NodeView>,
    ) -> Outcome {
        let answer = match self.look_up(&node).await {
            Ok(answer) => answer,
            Err(error) => {
                let class = error.class();
                self.metrics.counted("failed", class.as_str());
                log_repeated!(
                    warn, self.context.repeats, &error.to_string(),
                    csr = &*csr.name, node = &*node.name, class = class.as_str(), %error,
                    "serving certificate not approved: the instance cannot be looked up"
                );
                return class.requeue().into();
            }
        };
        let nodes = self.context.nodes.all();
        let now = nodes.iter().find(|now| now.name == node.name);
        if now.is_none_or(|now| !is_same_question(now, &node)) {
            return Outcome::Retry;
        }
        match decide(request, &node, &answer, nodes.iter().map(|node| &**node)) {
            Ok(()) => self.approve(csr, request).await,
            Err(problem) => self.try_again(csr, &problem),
        }
    }

    /// The instance of `node` in both views: neither has all that is decided by.
    async fn look_up(&self, node: &Arc<NodeView>) -> Result<Lookup, Error> {
        let instances = self.context.provider.instances();
        let view = |purpose| instances.look_up(Arc::clone(node), purpose);
        let mut answer = view(LookupPurpose::Initialization).await.result?;
        if let Lookup::Found(instance) = &mut answer {
            match view(LookupPurpose::Lifecycle).await.result? {
                Lookup::Found(state) if !state.is_other_than(node) => {
                    instance.power_state = state.power_state;
                }
                other => answer = other,
            }
        }
        Ok(answer)
    }

    async fn approve(&self, csr: &Arc<CsrView>, request: &ServingRequest) -> Outcome {
        // Closed never.
        let _permit = self.writing.acquire().await;
        let approval = Approval {
            message: format!(
                "The cloud reports every name of the request for the instance of Node {}.",
                request.node
            ),
        };
        // In one try: after a wait the cloud may answer otherwise.
        match self.writer.write_once(csr, &approval).await {
            Ok(Some(_)) => {
                self.metrics.counted("approved", "");
                info!(
                    csr = &*csr.name,
                    node = &*request.node,
                    names = request.names.len(),
                    "serving certificate approved"
                );
                Outcome::Done
            }
            Ok(None) => Outcome::Done,
            Err(error) => {
                self.metrics.counted("failed", error.class().as_str());
                not_written!(self.context, csr = &*csr.name, "its approval", &error)
            }
        }
    }

    /// The cloud and the Node may change as long as the kubelet waits.
    fn try_again(&self, csr: &CsrView, problem: &CsrProblem) -> Outcome {
        let now = time_of_day();
        let is_younger = |than: Duration| {
            csr.created
                .is_some_and(|created| now.duration_since(created).unsigned_abs() < than)
        };
        let is_initializing = problem.reason == CsrProblem::NO_PROVIDER_ID;
        if !is_initializing || !is_younger(INITIALIZED_WITHIN) {
            self.leave(csr, problem);
        }
        if is_younger(PATIENCE) {
            Outcome::from(Requeue::SlowBackOff)
        } else {
            Outcome::Done
        }
    }

    /// Says why the request is not approved, unless that was the last event about it, or it is decided by now.
    fn leave(&self, csr: &CsrView, problem: &CsrProblem) {
        if !self.state.is_news(&self.csrs, csr, problem) {
            return;
        }
        self.metrics.counted("left", problem.reason);
        warn!(csr = &*csr.name, reason = problem.reason, error = %problem, "serving certificate not approved");
        let object = ObjectRef::csr(Arc::clone(&csr.name), &*csr.uid);
        let message = format!("Left for another to approve or deny: {problem}.");
        let event = EventContent::warning(NOT_APPROVED, &message);
        self.context.events.event(object, event);
    }
}

impl ControlLoop for KubeletServing {
    type Key = Arc<str>;
    type State = CsrState;
    type Slot = ();

    const NAME: &'static str = NAME;

    fn state(&self) -> &Arc<CsrState> {
        &self.state
    }

    /// Both stores, and a provider that serves instances.
    async fn ready(&self) {
        self.context
            .instances_served(NAME, "kubelet-serving-approving controller")
            .await;
        self.csrs.synced().await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        let pending = self.csrs.all().into_iter();
        let pending = pending.filter(|csr| csr.pending.is_some());
        let keys = pending.map(|csr| Arc::clone(&csr.name));
        self.context.queue.add_all(keys, Priority::Bulk);
        Vec::new()
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority, (): ()) -> Outcome {
        self.sync(&name).await
    }
}

metric_families! {
    /// `outrigger_kubelet_serving_*`.
    pub struct CsrMetrics {
        requests: Labelled<2, Counter> = Labelled::by(["result", "reason"]),
            "outrigger_kubelet_serving_requests",
            "Requests for serving certificates that were approved or left alone, and tries that failed, by reason";
    }
}

impl CsrMetrics {
    fn counted(&self, result: &'static str, reason: &'static str) {
        self.requests.of([result, reason]).inc();
    }
}

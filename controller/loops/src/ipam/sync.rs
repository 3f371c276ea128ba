//! One Node: allocate, write, report.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    error_class::ErrorClass,
    event::EventContent,
    ipam::{self, Exhausted, PodCidrPlan, PodCidrProblem, PodCidrStep},
    node::{NodeView, change::PodCidrsWrite, instance::Lookup},
};
use tracing::{debug, info, warn};

use super::NodeIpam;
use crate::queue::{Outcome, Priority};
use outrigger_kube::{
    error::ApiError,
    nodes::{self, Write},
};
use outrigger_provider::LookupPurpose;
use outrigger_runtime::log_repeated;

/// The cloud names the Pod CIDRs of an instance in its own time, and no change of the Node says when.
const AWAIT_CLOUD: Outcome = Outcome::RetryWithin(Duration::from_secs(30));

/// No CIDR is left (I-13).
const NOT_AVAILABLE: &str = "CIDRNotAvailable";
/// CIDRs could not be written (I-16).
const ASSIGNMENT_FAILED: &str = "CIDRAssignmentFailed";
/// Two Nodes have the same addresses.
const DUPLICATE: &str = "DuplicatePodCIDR";
/// CIDRs that no allocator would give.
const INVALID: &str = "InvalidPodCIDR";

impl NodeIpam {
    pub(super) async fn sync(&self, name: Arc<str>) -> Outcome {
        if let Some(outcome) = self.await_store(&name).await {
            return outcome;
        }
        let Some(node) = self.context.nodes.get(&name) else {
            return Outcome::Done;
        };
        if !node.pod_cidrs.is_empty() {
            self.state.waiting.lock().remove(&name);
            self.report(&node, Vec::new());
            return Outcome::Done;
        }
        let given = match self.ask(&node).await {
            Ok(given) => given,
            Err(outcome) => return outcome,
        };
        // Never closed.
        let _permit = self.writing.acquire().await;
        let planned = {
            let mut allocator = self.state.allocator.lock();
            // The store may have changed during the waits: another writer's CIDRs, the end of the Node.
            let current = self.context.nodes.get(&name);
            current.map(|current| {
                let given = given.as_deref().filter(|_| current.uid == node.uid);
                (ipam::plan(&current, given, &mut allocator), current)
            })
        };
        let Some((PodCidrPlan { problems, step }, node)) = planned else {
            return Outcome::Done;
        };
        self.report(&node, problems);
        self.carry_out(node, step).await
    }

    /// While the list at the start had another Node of the name than the store, nothing is decided about
    /// it: either the watch brings that Node, or it is gone.
    async fn await_store(&self, name: &Arc<str>) -> Option<Outcome> {
        self.state.observe(name);
        let uid: Box<str> = self.state.allocator.lock().awaited(name)?.into();
        match self.context.api.uid(&nodes::path(name)).await {
            Ok(live) if *live == *uid => Some(Outcome::Retry),
            Err(error) if !error.is_not_found() => Some(error.requeue().into()),
            _ => {
                self.forget(name, &uid);
                self.state.observe(name);
                None
            }
        }
    }

    async fn carry_out(&self, node: Arc<NodeView>, step: PodCidrStep) -> Outcome {
        let waits = match &step {
            PodCidrStep::Wait(_) => true,
            PodCidrStep::Refuse(problem) => matches!(problem, PodCidrProblem::Duplicate { .. }),
            _ => false,
        };
        let is_new = {
            let mut waiting = self.state.waiting.lock();
            if waits {
                waiting.insert(Arc::clone(&node.name))
            } else {
                waiting.remove(&node.name)
            }
        };
        match step {
            PodCidrStep::Nothing => Outcome::Done,
            PodCidrStep::Write(write) => self.write(node, &write).await,
            PodCidrStep::AskProvider => Outcome::Retry,
            PodCidrStep::Wait(exhausted) => self.wait(&node, &exhausted, is_new),
            PodCidrStep::WaitForProvider => {
                debug!(
                    node = &*node.name,
                    "the cloud has no Pod CIDR for the instance yet"
                );
                AWAIT_CLOUD
            }
            PodCidrStep::Refuse(problem) => {
                let outcome = Outcome::from(problem.class().requeue());
                self.report(&node, vec![problem]);
                outcome
            }
        }
    }

    /// `--cidr-allocator-type=CloudAllocator`: the Pod CIDRs that the provider names for the instance. Asked
    /// without a permit to write, so that lookups leave in full batches.
    async fn ask(&self, node: &Arc<NodeView>) -> Result<Option<Box<[Box<str>]>>, Outcome> {
        if !ipam::needs_provider(node, &self.state.allocator.lock()) {
            return Ok(None);
        }
        let lookup = self
            .context
            .provider
            .instances()
            .look_up(Arc::clone(node), LookupPurpose::Initialization)
            .await;
        if let Some(node) = self
            .context
            .nodes
            .get(&node.name)
            .filter(|now| now.uid == node.uid)
        {
            (self.on_lookup)(&node, lookup.result.as_ref().ok());
        }
        match lookup.result {
            Ok(Lookup::Found(instance)) => Ok(Some(instance.pod_cidrs)),
            Ok(Lookup::Absent { .. }) => Err(AWAIT_CLOUD),
            Ok(Lookup::NotManaged { reason }) => {
                debug!(node = &*node.name, %reason, "not managed by the provider: no Pod CIDR");
                Err(Outcome::Done)
            }
            Err(error) => {
                debug!(node = &*node.name, %error, "Pod CIDRs of the instance are not known");
                Err(Outcome::from(error.class().requeue()))
            }
        }
    }

    /// I-14 to I-16. The CIDRs stay the Node's whatever the answer is: a write with a lost answer may
    /// have been carried out.
    async fn write(&self, node: Arc<NodeView>, write: &PodCidrsWrite) -> Outcome {
        let decide = |node: &NodeView| -> Result<_, ApiError> {
            let is_wanted =
                node.pod_cidrs.is_empty() && node.deleted.is_none() && !node.is_paused();
            Ok(is_wanted.then(|| Write::PodCidrs(write.clone())))
        };
        match self.writer.settle(Arc::clone(&node), decide).await {
            Ok(Some(view)) => {
                if view.pod_cidrs == write.cidrs {
                    self.metrics
                        .allocated(&write.cidrs, self.state.allocator.lock().ranges());
                    info!(node = &*node.name, pod_cidrs = %write.cidrs.join(","), "Node has its Pod CIDRs");
                }
                Outcome::Done
            }
            Ok(None) => {
                self.forget(&node.name, &node.uid);
                Outcome::Done
            }
            Err(ApiError::Fenced) => Outcome::Retry,
            Err(error) => {
                let class = error.class();
                log_repeated!(
                    warn, self.context.repeats, &error.cause(),
                    node = &*node.name, class = class.as_str(), %error, "Pod CIDRs cannot be written"
                );
                if !matches!(class, ErrorClass::RateLimited { .. } | ErrorClass::Conflict) {
                    let message = format!("{}: {error}", status(&node, ASSIGNMENT_FAILED));
                    self.context
                        .node_event(&node, EventContent::warning(ASSIGNMENT_FAILED, &message));
                }
                error.requeue().into()
            }
        }
    }

    /// I-13: the event once for each wait, and not with each try (not Q-18).
    fn wait(&self, node: &Arc<NodeView>, error: &Exhausted, is_new: bool) -> Outcome {
        if is_new {
            let event = EventContent::warning(NOT_AVAILABLE, &status(node, NOT_AVAILABLE));
            self.context.node_event(node, event);
        }
        log_repeated!(
            warn, self.context.repeats, NOT_AVAILABLE,
            node = &*node.name, %error, "Node gets no Pod CIDR"
        );
        Outcome::Retry
    }

    /// The Node is gone: its CIDRs are free, and a Node that waits may have them.
    fn forget(&self, name: &str, uid: &str) {
        let next = self.state.forget(name, uid);
        self.context.queue.add_all(next, Priority::Fresh);
    }

    fn report(&self, node: &NodeView, problems: Vec<PodCidrProblem>) {
        let stored = self
            .state
            .problems
            .lock()
            .remove(&node.name)
            .unwrap_or_default();
        for problem in stored.into_iter().chain(problems) {
            let reason = match problem {
                PodCidrProblem::Duplicate { .. } => DUPLICATE,
                _ => INVALID,
            };
            self.metrics.problem(reason);
            warn!(node = &*node.name, reason, error = %problem, "Pod CIDRs of the Node are wrong");
            self.context
                .node_event(node, EventContent::warning(reason, &problem.to_string()));
        }
    }
}

/// Upstream's words.
fn status(node: &NodeView, reason: &str) -> String {
    format!("Node {} status is now: {reason}", node.name)
}

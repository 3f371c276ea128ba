//! One Node: ask the provider if it allocates, plan, write, report.
//!
//! A plan and its write hold a permit; a lookup holds none. Pod CIDRs that were planned stay the Node's, whatever becomes
//! of the write.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    event::EventContent,
    ipam::{self, PodCidrPlan, PodCidrStep},
    node::{
        NodeView,
        instance::{Lookup, no_instance},
    },
};
use tokio::time::Instant;
use tracing::info;

use super::NodeIpam;
use crate::{
    context::not_written,
    not_managed::ASKED_AGAIN,
    queue::{Outcome, Priority},
};
use outrigger_kube::{
    error::ApiError,
    nodes::{self, Write},
};
use outrigger_provider::LookupPurpose;
use outrigger_runtime::log_repeated;

/// The cloud names the Pod CIDRs of an instance in its own time, and no change of the Node says when.
const AWAIT_CLOUD: Outcome = Outcome::RetryWithin(Duration::from_secs(30));

/// So long the cloud may take to name them before an event says that it has not.
const PATIENCE: Duration = Duration::from_secs(30);

/// No CIDR is left (I-13).
const NOT_AVAILABLE: &str = "CIDRNotAvailable";
/// CIDRs could not be written (I-16).
const ASSIGNMENT_FAILED: &str = "CIDRAssignmentFailed";

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
            return Outcome::Done;
        }
        let given = match self.ask(&node).await {
            Ok(given) => given,
            Err((outcome, why)) => {
                if let Some(why) = why {
                    self.wait(&node, PATIENCE, NOT_AVAILABLE, &why);
                }
                return outcome;
            }
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
        self.state.report(&node, problems);
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
        if matches!(step, PodCidrStep::Nothing | PodCidrStep::Write(_)) {
            self.state.waiting.lock().remove(&node.name);
        }
        match step {
            PodCidrStep::Nothing => Outcome::Done,
            PodCidrStep::Write(cidrs) => self.write(node, &cidrs).await,
            PodCidrStep::AskProvider => Outcome::Retry,
            PodCidrStep::Wait(exhausted) => {
                self.wait(&node, Duration::ZERO, NOT_AVAILABLE, &exhausted.to_string());
                Outcome::Retry
            }
            PodCidrStep::WaitForProvider => {
                let why = "the cloud has none for the instance yet";
                self.wait(&node, PATIENCE, NOT_AVAILABLE, why);
                AWAIT_CLOUD
            }
            PodCidrStep::Refuse(problem) => {
                let reason = problem.reason;
                if self.wait(&node, Duration::ZERO, reason, &problem.to_string()) {
                    self.metrics.problems.of([reason]).inc();
                }
                problem.class().requeue().into()
            }
        }
    }

    /// `--cidr-allocator-type=CloudAllocator`: the Pod CIDRs that the provider names for the instance. Asked
    /// without a permit to write, so that lookups leave in full batches.
    ///
    /// # Errors
    /// When it is to be asked again, and why, unless that concerns all Nodes alike.
    async fn ask(
        &self,
        node: &Arc<NodeView>,
    ) -> Result<Option<Box<[Box<str>]>>, (Outcome, Option<String>)> {
        if !ipam::needs_provider(node, &self.state.allocator.lock()) {
            return Ok(None);
        }
        let lookup = self
            .context
            .provider
            .instances()
            .look_up(Arc::clone(node), LookupPurpose::Initialization)
            .await;
        if let Some(node) = self.context.nodes.newest(node) {
            (self.on_lookup)(&node, lookup.result.as_ref().ok());
        }
        match lookup.result {
            Ok(Lookup::Found(instance)) => Ok(Some(instance.pod_cidrs)),
            Ok(Lookup::Absent { .. }) => Err((AWAIT_CLOUD, Some(no_instance(node)))),
            Ok(Lookup::NotManaged { reason }) => {
                let why = format!("the provider does not manage the Node: {reason}");
                Err((Outcome::RetryAfter(ASKED_AGAIN), Some(why)))
            }
            Err(error) => {
                let class = error.class();
                let why = class.is_for_owner().then(|| error.steady());
                Err((class.requeue().into(), why))
            }
        }
    }

    /// I-14 to I-16. The CIDRs stay the Node's whatever the answer is: a write with a lost answer may
    /// have been carried out.
    async fn write(&self, node: Arc<NodeView>, cidrs: &[Box<str>]) -> Outcome {
        let decide = |node: &NodeView| -> Result<_, ApiError> {
            let is_wanted =
                node.pod_cidrs.is_empty() && node.deleted.is_none() && !node.is_paused();
            Ok(is_wanted.then(|| Write::PodCidrs(cidrs.into())))
        };
        match self.writer.settle(Arc::clone(&node), decide).await {
            Ok(Some(view)) => {
                if *view.pod_cidrs == *cidrs {
                    self.metrics
                        .allocated(cidrs, self.state.allocator.lock().ranges());
                    info!(node = &*node.name, pod_cidrs = %cidrs.join(","), "Node has its Pod CIDRs");
                }
                Outcome::Done
            }
            Ok(None) => {
                self.forget(&node.name, &node.uid);
                Outcome::Done
            }
            Err(error) => {
                if error.class().is_for_owner() {
                    let message = format!("{}: {error}", status(&node, ASSIGNMENT_FAILED));
                    let event = EventContent::warning(ASSIGNMENT_FAILED, &message);
                    self.context.node_event(&node, event);
                }
                not_written!(self.context, node = &*node.name, "its Pod CIDRs", &error)
            }
        }
    }

    /// I-13: an event once the Node has waited for `patience`, and then when the cause is another one, not with each try (not
    /// Returns true if there is one now.
    fn wait(&self, node: &Arc<NodeView>, patience: Duration, reason: &str, why: &str) -> bool {
        log_repeated!(
            warn,
            self.context.repeats,
            reason,
            node = &*node.name,
            error = why,
            "Node gets no Pod CIDR"
        );
        {
            let mut waiting = self.state.waiting.lock();
            // Under the lock: its deletion is handled after this, or has been.
            if self.context.nodes.newest(node).is_none() {
                return false;
            }
            let entry = waiting.entry(Arc::clone(&node.name));
            let (since, said) = entry.or_insert_with(|| (Instant::now(), String::new()));
            let left = patience.saturating_sub(since.elapsed());
            if !left.is_zero() {
                let name = Arc::clone(&node.name);
                self.context.queue.add_after(name, Priority::Bulk, left);
                return false;
            }
            if *said == *why {
                return false;
            }
            why.clone_into(said);
        }
        let message = match reason {
            NOT_AVAILABLE => format!("{}: {why}", status(node, reason)),
            _ => why.to_owned(),
        };
        let event = EventContent::warning(reason, &message);
        self.context.node_event(node, event);
        true
    }

    /// The Node is gone: its CIDRs are free, and a Node that waits may have them.
    fn forget(&self, name: &str, uid: &str) {
        let next = self.state.forget(name, uid);
        self.context.queue.add_all(next, Priority::Fresh);
    }
}

/// Upstream's words.
fn status(node: &NodeView, reason: &str) -> String {
    format!("Node {} status is now: {reason}", node.name)
}

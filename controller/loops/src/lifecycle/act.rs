//! Carries out the decision about one Node: one write or deletion, its event and its metrics.
//!
//! Before a Node is deleted or taken out of service the provider is asked about itself once more. A measure that the API
//! server refuses is tried again by the queue; the Node is judged again before that.

use std::sync::Arc;

use outrigger_core::{
    effects::RawEffects,
    error_class::ErrorClass,
    event::EventContent,
    node::{
        NodeView, Ready,
        change::NodeChange,
        deletion_limit::Release,
        lifecycle::{Deletion, LifecycleAction, Measure, Withheld},
    },
    repairs::Undone,
};
use tokio::sync::SemaphorePermit;
use tracing::{debug, info, warn};

use super::NodeLifecycle;
use crate::{context::not_written, queue::Outcome};
use outrigger_kube::{error::ApiError, nodes::Write};
use outrigger_runtime::clock::until;

impl NodeLifecycle {
    /// # Errors
    /// When it is tried again, if it was not done; the log has why.
    pub(super) async fn act(
        &self,
        node: &Arc<NodeView>,
        boot_id: &str,
        action: LifecycleAction,
    ) -> Result<(), Outcome> {
        match action {
            LifecycleAction::Keep => Ok(()),
            LifecycleAction::AddShutdownTaint(change) => {
                self.add_shutdown_taint(node, change).await
            }
            LifecycleAction::TakeOutOfService(change) => {
                self.take_out_of_service(node, change).await
            }
            LifecycleAction::Delete(deletion) => self.delete(node, &deletion).await,
            LifecycleAction::Withhold(measure, why) => {
                self.withhold(node, measure, &why);
                Ok(())
            }
            LifecycleAction::NotManaged { reason } => {
                let nodes = &self.context.nodes;
                self.not_managed.remember(nodes, node, boot_id, &reason);
                Ok(())
            }
            LifecycleAction::Inconclusive(why) => {
                self.metrics.doubts.of([why.as_str()]).inc();
                debug!(node = &*node.name, reason = %why, "node is kept");
                Ok(())
            }
        }
    }

    /// L-10, L-12. In one try: after a wait the instance may run.
    async fn add_shutdown_taint(
        &self,
        node: &Arc<NodeView>,
        change: NodeChange,
    ) -> Result<(), Outcome> {
        // Never closed.
        let _permit = self.writing.acquire().await;
        match self.writer.write_once(node, &Write::Node(change)).await {
            Ok(_) => {
                self.state.repairs.lock().remove(&node.name);
                info!(
                    node = &*node.name,
                    "node has the shutdown taint: its instance is stopped"
                );
                Ok(())
            }
            Err(error) => Err(self.not_written(&node.name, "the shutdown taint", &error)),
        }
    }

    /// Not on another version of the Node than was judged: its Pods are deleted by force.
    async fn take_out_of_service(
        &self,
        node: &Arc<NodeView>,
        change: NodeChange,
    ) -> Result<(), Outcome> {
        let Some(_permit) = self.last_look(node, Measure::OutOfService).await else {
            return Ok(());
        };
        match self.writer.write_once(node, &Write::Node(change)).await {
            Ok(_) => {
                let now = self.state.clock.now();
                let mut lifecycle = self.state.lifecycle.lock();
                lifecycle.taken_out_of_service(now, &node.name);
                drop(lifecycle);
                self.state.repairs.lock().remove(&node.name);
                self.metrics.out_of_service.inc();
                warn!(
                    node = &*node.name,
                    provider_id = &*node.provider_id,
                    "node taken out of service: its instance has been stopped for long"
                );
                let event = EventContent::node_out_of_service(&node.name);
                self.context.node_event(node, event);
                Ok(())
            }
            // The Node has changed; its current state is checked again.
            Err(error) if error.class() == ErrorClass::Conflict => {
                debug!(node = &*node.name, %error, "node not taken out of service, since it has changed");
                Err(Outcome::Retry)
            }
            Err(error) => Err(self.not_written(&node.name, "the out-of-service taint", &error)),
        }
    }

    /// L-3. Another client that adds them again and again is answered ever more rarely.
    pub(super) async fn remove_taints(&self, node: Arc<NodeView>, planned: &NodeChange) -> Outcome {
        let before = Arc::clone(&node);
        let name = &*before.name;
        let now = self.state.clock.now();
        let mut repairs = self
            .state
            .repairs
            .lock()
            .get(name)
            .copied()
            .unwrap_or_default();
        if let Some(due) = repairs.due(now) {
            return Outcome::RetryAfter(until(due, now));
        }
        if repairs.is_again(now) {
            let entries = self.writer.managed_fields(&node).await;
            let event = EventContent::overwritten(Undone::TaintOfStop, &entries);
            self.context.node_event(&node, event);
        }
        repairs.made(now);
        let removal = |node: &NodeView| -> Result<_, ApiError> {
            let may_change = node.ready == Ready::True && !node.is_paused();
            Ok(may_change
                .then(|| NodeChange::remove_taints_of_stop(node))
                .flatten()
                .map(Write::Node))
        };
        let _permit = self.writing.acquire().await;
        match self.writer.settle(node, removal).await {
            Ok(_) => {
                let mut all = self.state.repairs.lock();
                // Under the lock: its deletion is handled after this, or has been.
                if self.context.nodes.newest(&before).is_some() {
                    all.insert(Arc::clone(&before.name), repairs);
                }
                drop(all);
                info!(
                    node = name,
                    "node is ready again; the taints of its stop are gone"
                );
                if planned.takes_into_service() {
                    let event = EventContent::node_in_service(name);
                    self.context.node_event(&before, event);
                }
                Outcome::Done
            }
            Err(error) => self.not_written(name, "the end of the taints of its stop", &error),
        }
    }

    /// L-7, L-8.
    async fn delete(&self, node: &NodeView, deletion: &Deletion) -> Result<(), Outcome> {
        let name = &*node.name;
        // The provider's word does not count against an operator's.
        let permit = match deletion.release {
            Release::Operator => self.writing.acquire().await.ok(),
            Release::WithinLimit | Release::SecondLook | Release::Announced => {
                self.last_look(node, Measure::Deletion).await
            }
        };
        let Some(_permit) = permit else {
            return Ok(());
        };
        let event = EventContent::deleting_node(name, deletion.never_found.as_deref());
        self.context.node_event(node, event);
        match self.writer.delete(node).await {
            Ok(()) => {
                let now = self.state.clock.now();
                self.state.lifecycle.lock().deleted(now, node);
                let release = deletion.release.as_str();
                self.metrics.deletions.of([release]).inc();
                info!(
                    node = name,
                    provider_id = &*node.provider_id,
                    release,
                    "node deleted: it does not exist in the cloud provider"
                );
                Ok(())
            }
            // The Node has changed; its current state is checked again.
            Err(error) if error.class() == ErrorClass::Conflict => {
                debug!(node = name, %error, "node not deleted, since it has changed");
                Err(Outcome::Retry)
            }
            Err(error) => {
                let event = EventContent::node_not_deleted(name, &error);
                self.context.node_event(node, event);
                Err(self.not_written(name, "its deletion", &error))
            }
        }
    }

    /// The permit to write, once the provider was asked about itself; none if `measure` is withheld.
    async fn last_look(&self, node: &NodeView, measure: Measure) -> Option<SemaphorePermit<'_>> {
        let trouble = self.context.provider.trouble().await;
        let permit = self.writing.acquire().await;
        let look = {
            let mut lifecycle = self.state.lifecycle.lock();
            lifecycle.last_look(node, measure, trouble)
        };
        if let Err(why) = look {
            self.note(&node.name, why.as_str(), || why.sentence(measure));
            self.withhold(node, measure, &why);
            return None;
        }
        permit.ok()
    }

    /// Writes the effects of the provider's answer about `node_at_lookup`. If that fails, the next answer has them
    /// again.
    pub(super) async fn write_effects(&self, node_at_lookup: &NodeView, effects: RawEffects) {
        let node = self.context.nodes.newest(node_at_lookup);
        if node.is_some_and(|node| self.effects.observe(&node, effects))
            && let Err(error) = self.effects.write(&node_at_lookup.name).await
        {
            self.state.effects.forget(&node_at_lookup.name);
            self.not_written(&node_at_lookup.name, "effects of the provider", &error);
        }
    }

    fn not_written(&self, node: &str, write: &'static str, error: &ApiError) -> Outcome {
        not_written!(self.context, node = node, write, error)
    }

    /// Says once why `measure` is withheld from a node, and again when the reason is another.
    fn withhold(&self, node: &NodeView, measure: Measure, why: &Withheld) {
        if !self.state.lifecycle.lock().is_news(node, measure, why) {
            return;
        }
        self.metrics.withheld(measure, why.as_str());
        let reason = why.sentence(measure);
        if why.is_expected() {
            debug!(node = &*node.name, ?measure, reason, "node kept for now");
            return;
        }
        warn!(
            node = &*node.name,
            provider_id = &*node.provider_id,
            ?measure,
            reason,
            "node kept, though its instance does not exist or is stopped"
        );
        let event = EventContent::node_measure_withheld(&node.name, measure, why);
        self.context.node_event(node, event);
    }
}

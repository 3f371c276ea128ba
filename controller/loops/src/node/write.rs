//! The writes to one Node: what its machine has and it lacks, and what another client has undone.

use std::{mem, sync::Arc};

use outrigger_core::{
    decision::DecisionReason,
    event::EventContent,
    node::{
        NodeView,
        instance::Instance,
        maintenance::{self, MaintenanceWrite},
        plan::{self, NodePlan, Policy, repair},
    },
    repairs::{Repairs, Undone},
};
use tracing::{debug, info};

use super::{CloudNode, NAME, error::NodeSyncError, memory::NodeMemory};
use crate::queue::Outcome;
use outrigger_kube::{error::ApiError, nodes::Write};
use outrigger_provider::{InstancesCapability, Session};
use outrigger_runtime::{
    clock::{time_of_day, until},
    history,
};

impl CloudNode {
    /// The writes that bring `node` in line with `instance`.
    pub(super) fn plan(
        &self,
        node: &NodeView,
        instance: &Instance,
        policy: &Policy,
    ) -> Result<NodePlan, plan::Error> {
        let planned = plan::plan(node, instance, policy);
        let why = || DecisionReason::of_plan(&planned);
        let history = &self.context.history;
        history.decided(NAME, history::node(&node.name), "plan", why);
        planned
    }

    pub(super) fn policy(&self, instances: &InstancesCapability) -> Policy {
        Policy {
            without_provider_id: instances.without_provider_id,
            managed_label_keys: instances.managed_label_keys.clone(),
            manages_additional_labels: self.settings.manages_additional_labels,
        }
    }

    /// Writes what `node` lacks of `machine`: metadata and spec, then addresses, then maintenance (N-20, N-21, N-40 to N-47).
    /// Looked at again here, for it may be in sync by now.
    pub(super) async fn bring_in_line(
        &self,
        mut node: Arc<NodeView>,
        machine: &Arc<Instance>,
        instances: &InstancesCapability,
    ) -> Result<Outcome, NodeSyncError> {
        let is_new = self.state.is_new(&node);
        let permits = if is_new {
            &self.writing
        } else {
            &self.refreshing
        };
        // Closed at the stop.
        let Ok(_permit) = permits.acquire().await else {
            return Err(ApiError::Fenced.into());
        };
        let policy = self.policy(instances);
        let mut is_first = true;
        // Provider id, labels and the end of the taint are one write (N-20).
        let metadata = |node: &NodeView| {
            let plan = self.plan(node, machine, &policy)?;
            if mem::take(&mut is_first) {
                for warning in &plan.warnings {
                    self.warn(node, warning);
                }
            }
            Ok(plan.change.map(Write::Node))
        };
        let nodes = &self.context.nodes;
        if is_new {
            // Before its taint goes: from then on the route loop says on the Node what it lacks.
            self.confirm_instance(&node, machine);
            node = nodes.newest(&node).unwrap_or(node);
        }
        let Some(node) = self.settle(node, instances, metadata).await? else {
            return Ok(Outcome::Done);
        };
        if is_new {
            self.metrics.taint_removed.observe(age(&node));
        }
        let written = self.write_status(Arc::clone(&node), machine, instances);
        let written = written.await;
        if is_new {
            // Also where the addresses are still to come (N-22).
            self.state
                .remember(nodes, &node, |memory| memory.is_new = false);
            self.context.node_event(&node, EventContent::node_synced());
            self.metrics.initialized.observe(age(&node));
            info!(
                node = &*node.name,
                provider_id = &*node.provider_id,
                "node initialized"
            );
        }
        written?;
        let finish = |memory: &mut NodeMemory| memory.finish(machine);
        self.state.remember(nodes, &node, finish);
        debug!(node = &*node.name, "node is in line with its instance");
        Ok(Outcome::Done)
    }

    async fn write_status(
        &self,
        node: Arc<NodeView>,
        machine: &Instance,
        instances: &InstancesCapability,
    ) -> Result<(), NodeSyncError> {
        let now = self.state.clock.now();
        let rewritten = |memory: &mut NodeMemory| memory.addresses_rewritten(now);
        if self.state.remember(&self.context.nodes, &node, rewritten) == Some(true) {
            self.name_other_writer(&node, Undone::NodeAddresses).await;
        }
        let policy = self.policy(instances);
        // The queue repeats a failure; it does not wait for the next period.
        let addresses = |node: &NodeView| -> Result<_, NodeSyncError> {
            let plan = self.plan(node, machine, &policy)?;
            Ok(plan.addresses.map(Write::Addresses))
        };
        match self.settle(node, instances, addresses).await? {
            Some(node) => self.write_maintenance(node, machine, instances).await,
            None => Ok(()),
        }
    }

    /// Puts right, without a lookup, what another client has undone, or a label that has to follow the old generation (N-35).
    /// Where that comes again and again it is done in time, and the Node has a Warning that names the client.
    pub(super) async fn repair(
        &self,
        node: Arc<NodeView>,
        session: &Session,
        undone: Undone,
        repairs: Repairs,
    ) -> Result<Outcome, NodeSyncError> {
        let now = self.state.clock.now();
        if let Some(due) = repairs.due(now) {
            return Ok(Outcome::RetryAfter(until(due, now)));
        }
        // Without its prefixes nothing says whether the node is the provider's.
        let Some(instances) = &session.instances else {
            return Ok(Outcome::Done);
        };
        if repairs.is_again(now) {
            self.name_other_writer(&node, undone).await;
        }
        let decide = |node: &NodeView| Ok(repair(node).map(Write::Node));
        self.settle(node, instances, decide).await?;
        Ok(Outcome::Done)
    }

    async fn name_other_writer(&self, node: &NodeView, undone: Undone) {
        let entries = self.writer.managed_fields(node).await;
        let event = EventContent::overwritten(undone, &entries);
        self.context.node_event(node, event);
    }

    /// The next write for what the cloud has announced about the machine of `node`.
    pub(super) fn plan_maintenance(
        &self,
        node: &NodeView,
        instance: &Instance,
    ) -> Option<MaintenanceWrite> {
        let unannounced = self.state.unannounced(node);
        let settings = self.settings.maintenance;
        maintenance::plan(time_of_day(), node, instance, unannounced, settings)
    }

    /// Writes what the cloud has announced about the machine: the conditions, then the taint.
    async fn write_maintenance(
        &self,
        mut node: Arc<NodeView>,
        machine: &Instance,
        instances: &InstancesCapability,
    ) -> Result<(), NodeSyncError> {
        for _ in 0..2 {
            let mut events = Vec::new();
            let write = |node: &NodeView| -> Result<_, NodeSyncError> {
                let write = self.plan_maintenance(node, machine);
                let planned = write.as_ref().map(MaintenanceWrite::events);
                events = planned.unwrap_or_default();
                Ok(write.map(Write::from))
            };
            let Some(written) = self.settle(node, instances, write).await? else {
                break;
            };
            for event in events {
                info!(node = &*written.name, event = %event.message, "maintenance of the node");
                self.note(&written.name, "maintenance", || event.message.to_string());
                self.context.node_event(&written, event);
            }
            node = written;
        }
        Ok(())
    }

    /// Writes what `decide` wants as long as the node may be written to.
    async fn settle(
        &self,
        node: Arc<NodeView>,
        instances: &InstancesCapability,
        mut decide: impl FnMut(&NodeView) -> Result<Option<Write>, NodeSyncError>,
    ) -> Result<Option<Arc<NodeView>>, NodeSyncError> {
        let decide = |node: &NodeView| {
            if node.is_paused() || !self.may_touch(node, instances) {
                return Err(NodeSyncError::LeftAlone);
            }
            decide(node)
        };
        self.writer.settle(node, decide).await
    }
}

/// Seconds since the node was created, by this machine's clock (N-23).
fn age(node: &NodeView) -> f64 {
    time_of_day()
        .duration_since(node.created)
        .as_secs_f64()
        .max(0.0)
}

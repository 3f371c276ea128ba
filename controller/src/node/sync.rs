//! One node: ask, plan, write.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use outrigger_core::{
    error_class::ErrorClass,
    node::{
        ANNOTATION_PAUSED, NodeView,
        address::DesiredAddresses,
        initialize::{self, Policy},
        instance::{Instance, Lookup},
        refresh,
    },
};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{CloudNode, error::NodeSyncError};
use crate::{
    kube::{
        error::ApiError,
        events::{EventType, ObjectRef},
        nodes::Write,
    },
    provider::{InstancesCapability, LookupAnswer, LookupPurpose},
    queue::Outcome,
};

/// From the first failure of a node to the event about it: the cloud may not show a new instance yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two events about a node that cannot be initialised.
const REMIND: Duration = Duration::from_mins(1);

impl CloudNode {
    pub(super) async fn sync(&self, name: Arc<str>) -> Outcome {
        let Some(node) = self.parts.nodes.get(&name) else {
            self.effects.forget(&name);
            return Outcome::Done;
        };
        if node.is_paused() {
            debug!(
                node = &*name,
                annotation = ANNOTATION_PAUSED,
                "node is paused"
            );
            return Outcome::Done;
        }
        let observed = self.state.observed.lock().get(&name).cloned();
        // On the heap: all but the lookup, for which the Nodes of a whole cluster may wait at one time.
        let (work, result) = if node.is_uninitialized() || self.needs_another_write(&node) {
            let result = self.initialize(Arc::clone(&node)).await;
            if let Err(error) = &result {
                self.report(&node, error);
            }
            ("initialize", result)
        } else if let Some(instance) = observed {
            ("refresh", Box::pin(self.refresh(node, &instance)).await)
        } else {
            ("reconcile labels", Box::pin(self.reconcile(node)).await)
        };
        let failed = result.err().map(|error| self.failed(&name, work, &error));
        let effects = Box::pin(self.effects.write(&name)).await;
        let unwritten = effects
            .err()
            .map(|error| self.failed(&name, "write effects of the provider", &error.into()));
        failed.or(unwritten).unwrap_or(Outcome::Done)
    }

    /// Says on the node why it still keeps its taint (not N-11).
    fn report(&self, node: &NodeView, error: &NodeSyncError) {
        // Another node's provider id has an event of its own.
        let is_reported = matches!(error, NodeSyncError::Duplicate(_));
        if is_reported || !error.class().is_for_owner() {
            return;
        }
        let now = Instant::now();
        let mut reports = self.state.reports.lock();
        let due = reports.entry(Arc::clone(&node.name));
        let due = due.or_insert_with(|| now + PATIENCE);
        if now < *due {
            return;
        }
        *due = now + REMIND;
        drop(reports);
        let message = error.to_string();
        self.event(node, EventType::Warning, "FailedToInitialize", message);
    }

    /// N-11: logged, tried again.
    fn failed(&self, name: &str, work: &str, error: &NodeSyncError) -> Outcome {
        let class = error.class();
        self.parts.metrics.failed(class.as_str());
        let class_name = class.as_str();
        // Of a cause that may be that of many nodes, the first is said, and how many met it since.
        let cause = error.common_cause();
        let others = match (class, error) {
            // Whoever paused the calls has said why, and a wait is no failure.
            (
                ErrorClass::Unavailable
                | ErrorClass::RateLimited { .. }
                | ErrorClass::Unauthenticated
                | ErrorClass::InProgress { .. },
                NodeSyncError::Lookup(_),
            )
            | (_, NodeSyncError::Write(ApiError::Fenced)) => None,
            _ => cause.map_or(Some(0), |cause| self.repeats.due(&cause)),
        };
        if let Some(others) = others {
            warn!(node = name, class = class_name, work, others, %error, "node sync failed");
        } else {
            debug!(node = name, class = class_name, work, %error, "node sync failed");
        }
        error.retry()
    }

    async fn initialize(&self, node: Arc<NodeView>) -> Result<(), NodeSyncError> {
        // The gate was open a moment ago; if it is not now, the queue waits for it.
        let Some(session) = self.parts.provider.session() else {
            return self.lookup(node).await.map(drop);
        };
        let Some(instances) = &session.instances else {
            return Ok(());
        };
        if !self.may_touch(&node, instances) {
            debug!(
                node = &*node.name,
                provider_id = &*node.provider_id,
                "another provider's node, or not selected by --node-selector"
            );
            return Ok(());
        }
        if self.parts.not_managed.knows(&node, &session.boot_id) {
            return Ok(());
        }
        match self.lookup(Arc::clone(&node)).await? {
            Lookup::Found(instance) => {
                let fresh = node.provider_id.is_empty();
                let id = if fresh {
                    &instance.provider_id
                } else {
                    &node.provider_id
                };
                self.claim(id, &node)?;
                let done = Box::pin(self.write(Arc::clone(&node), &instance, instances)).await;
                if done.is_err() && fresh {
                    self.unclaim(id, &node);
                }
                done
            }
            Lookup::Absent { .. } => Err(NodeSyncError::Absent),
            Lookup::NotManaged { reason } => {
                // N-12: no retry until the node, or the provider, changes.
                self.parts
                    .not_managed
                    .remember(&node, &session.boot_id, &reason);
                Ok(())
            }
        }
    }

    async fn lookup(&self, node: Arc<NodeView>) -> Result<Lookup, NodeSyncError> {
        let provider = &self.parts.provider;
        let purpose = LookupPurpose::Initialization;
        let LookupAnswer { result, effects } = provider.lookup(Arc::clone(&node), purpose).await;
        self.effects.observe(&node, effects);
        Ok(result?)
    }

    /// Two nodes with one provider id are both refused: the id can never be changed again.
    fn claim(&self, provider_id: &str, node: &NodeView) -> Result<(), NodeSyncError> {
        let mut claims = self.state.claims.lock();
        claims.claim(provider_id, &node.name);
        let checked = claims.check(provider_id, &node.name);
        if checked.is_err() && node.provider_id.is_empty() {
            claims.release(provider_id, &node.name);
        }
        drop(claims);
        if let Err(duplicate) = &checked {
            self.event(
                node,
                EventType::Warning,
                "DuplicateProviderID",
                duplicate.to_string(),
            );
        }
        Ok(checked?)
    }

    fn unclaim(&self, provider_id: &str, node: &NodeView) {
        let written = self.parts.nodes.get(&node.name);
        if written.is_none_or(|node| *node.provider_id != *provider_id) {
            self.state.claims.lock().release(provider_id, &node.name);
        }
    }

    async fn write(
        &self,
        node: Arc<NodeView>,
        instance: &Instance,
        instances: &InstancesCapability,
    ) -> Result<(), NodeSyncError> {
        // Closed at the stop.
        let Ok(_permit) = self.writing.acquire().await else {
            return Err(ApiError::Fenced.into());
        };
        let policy = policy(instances);
        for warning in &initialize::plan(&node, instance, &policy)?.warnings {
            warn!(node = &*node.name, "{warning}");
        }
        // Provider id, labels and the end of the taint are one write (N-20).
        let metadata = |node: &NodeView| {
            Ok(initialize::plan(node, instance, &policy)?
                .change
                .map(Write::Node))
        };
        let (name, uid) = (Arc::clone(&node.name), node.uid.clone());
        let settled = self.writer.settle(node, metadata).await;
        match &settled {
            Ok(_) => {
                self.state.unconfirmed.lock().remove(&name);
            }
            // Without the taint the node would pass for one that needs nothing more.
            Err(NodeSyncError::Write(error)) if error.leaves_outcome_open() => {
                self.state.unconfirmed.lock().insert(name, uid.clone());
            }
            Err(_) => {}
        }
        let Some(node) = settled? else {
            return Ok(());
        };
        if self
            .state
            .unfinished
            .lock()
            .insert(Arc::clone(&node.name), uid)
            .is_none()
        {
            self.parts.metrics.taint_removed.observe(age(&node));
        }
        // N-21, but the queue repeats a failure; it does not wait for the next period.
        let addresses = |node: &NodeView| -> Result<_, NodeSyncError> {
            Ok(write_of(initialize::addresses(node, instance)?))
        };
        let Some(node) = self.writer.settle(node, addresses).await? else {
            return Ok(());
        };
        self.state.unfinished.lock().remove(&node.name);
        self.state.reports.lock().remove(&node.name);
        self.event(
            &node,
            EventType::Normal,
            "Synced",
            "Node synced successfully".to_owned(),
        );
        self.parts.metrics.initialized.observe(age(&node));
        info!(
            node = &*node.name,
            provider_id = &*node.provider_id,
            "node initialized"
        );
        Ok(())
    }

    /// N-10, N-35: a node that is initialised may still need a label.
    async fn reconcile(&self, node: Arc<NodeView>) -> Result<(), NodeSyncError> {
        let labels = |node: &NodeView| Ok(initialize::reconcile(node).map(Write::Node));
        self.writer.settle(node, labels).await.map(drop)
    }

    /// N-40 to N-47: what a sweep found to differ. Looked at again here, for it may be in step by now.
    async fn refresh(
        &self,
        node: Arc<NodeView>,
        instance: &Arc<Instance>,
    ) -> Result<(), NodeSyncError> {
        // The next sweep finds it again.
        let Some(session) = self.parts.provider.session() else {
            return Ok(());
        };
        let Some(instances) = &session.instances else {
            return Ok(());
        };
        // Closed at the stop.
        let Ok(_permit) = self.refreshing.acquire().await else {
            return Err(ApiError::Fenced.into());
        };
        let policy = policy(instances);
        for warning in refresh::plan(&node, instance, &policy).warnings {
            warn!(node = &*node.name, "{warning}");
        }
        let name = Arc::clone(&node.name);
        let labels = |node: &NodeView| -> Result<_, NodeSyncError> {
            Ok(refresh::plan(node, instance, &policy)
                .change
                .map(Write::Node))
        };
        let addresses = |node: &NodeView| -> Result<_, NodeSyncError> {
            Ok(write_of(refresh::plan(node, instance, &policy).addresses))
        };
        if let Some(node) = self.writer.settle(node, labels).await? {
            self.writer.settle(node, addresses).await?;
        }
        let mut observed = self.state.observed.lock();
        if observed
            .get(&name)
            .is_some_and(|last| Arc::ptr_eq(last, instance))
        {
            observed.remove(&name);
        }
        debug!(node = &*name, "node refreshed");
        Ok(())
    }

    fn needs_another_write(&self, node: &NodeView) -> bool {
        [&self.state.unfinished, &self.state.unconfirmed]
            .into_iter()
            .any(|nodes| nodes.lock().get(&node.name) == Some(&node.uid))
    }

    /// N-22, B-10: about the node, by its real UID.
    fn event(&self, node: &NodeView, kind: EventType, reason: &'static str, message: String) {
        self.parts.events.event(
            &ObjectRef::node(Arc::clone(&node.name), &*node.uid),
            kind,
            reason,
            message,
        );
    }
}

fn write_of(addresses: DesiredAddresses) -> Option<Write> {
    match addresses {
        DesiredAddresses::Changed(wanted) => Some(Write::Addresses(wanted)),
        DesiredAddresses::Unchanged | DesiredAddresses::Untouched => None,
    }
}

pub(super) fn policy(instances: &InstancesCapability) -> Policy {
    Policy {
        without_provider_id: instances.without_provider_id,
        managed_label_keys: instances.managed_label_keys.clone(),
    }
}

/// Seconds since the node was created, by this machine's clock (N-23).
fn age(node: &NodeView) -> f64 {
    Timestamp::now()
        .duration_since(node.created)
        .as_secs_f64()
        .max(0.0)
}

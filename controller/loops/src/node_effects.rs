//! The provider's effects on Nodes: kept from the answer until they are written. Each loop that calls the provider about
//! Nodes has its own.
//!
//! ```text
//!  answer ─► observe ─(differs)─► queue ─► write: one PATCH of nodes/<name>/status, events
//! ```
//!
//! The effects of a later answer replace those of an earlier one that are not written yet. The caller calls `write` until
//! it succeeds; effects that the API server refuses for their content are dropped and reported, since the next answer has
//! them again.
//!
//! RBAC: `patch` on `nodes/status`; `create`, `patch` on `events`.

use std::{collections::HashMap, sync::Arc};

use outrigger_core::{
    effects::{DropCause, Dropped, Effects, RawEffects},
    node::{NodeView, effects},
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use outrigger_kube::{error::ApiError, nodes::NodeWriter};
use outrigger_runtime::clock::time_of_day;

use crate::context::LoopParts;

/// Effects by the name of their Node, of one lease term. The event handlers of a loop forget those of Nodes that are
/// gone.
#[derive(Debug, Default)]
pub(crate) struct PendingNodeEffects(Mutex<HashMap<Arc<str>, Arc<PendingEffects>>>);

impl PendingNodeEffects {
    /// Drops the effects that are kept for the Node.
    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// Effects that are not written yet, and their writer.
pub(crate) struct NodeEffects {
    parts: LoopParts,
    writer: NodeWriter,
    writing: Semaphore,
    pending: Arc<PendingNodeEffects>,
}

#[derive(Debug)]
struct PendingEffects {
    uid: Box<str>,
    effects: Effects,
}

impl NodeEffects {
    /// Writes of at most `workers` Nodes at once, through `writer`, out of `pending`.
    pub(crate) fn new(
        parts: LoopParts,
        writer: NodeWriter,
        workers: usize,
        pending: Arc<PendingNodeEffects>,
    ) -> Self {
        Self {
            parts,
            writer,
            writing: Semaphore::new(workers),
            pending,
        }
    }

    /// Keeps the effects of an answer about `node`, instead of those of an earlier one, if there is something to
    /// write or to record. The caller then calls [`Self::write`] for the Node, and until it succeeds.
    pub(crate) fn observe(&self, node: &NodeView, raw: RawEffects) -> bool {
        let effects = self.parts.provider.node_effects(node, raw);
        if effects.is_empty() {
            return false;
        }
        let mut all = self.pending.0.lock();
        // Under the lock: its deletion is handled after this, or has been.
        if self.parts.nodes.get(&node.name).is_none() {
            return false;
        }
        // Those of an earlier answer may be in flight, and show in the Node only then.
        let is_due = !effects.events.is_empty()
            || all.contains_key(&node.name)
            || effects::plan(time_of_day(), node, &effects).is_some();
        if is_due {
            let uid = node.uid.clone();
            let pending = Arc::new(PendingEffects { uid, effects });
            all.insert(Arc::clone(&node.name), pending);
        }
        is_due
    }

    /// Writes the effects that are kept for the Node, and records their events. Those of a Node that is gone are
    /// dropped.
    ///
    /// # Errors
    /// They are kept, except after [`ApiError::Refused`]: the next answer of the provider has them again.
    pub(crate) async fn write(&self, name: &str) -> Result<(), ApiError> {
        let Some(pending) = self.pending.0.lock().get(name).cloned() else {
            return Ok(());
        };
        let node = self.parts.nodes.get(name);
        let written = match node.filter(|node| node.uid == pending.uid) {
            None => Ok(()),
            Some(node) => {
                // Never closed.
                let _permit = self.writing.acquire().await;
                let (effects, events) = (&pending.effects, &self.parts.events);
                let written = self
                    .writer
                    .write_effects(node.clone(), effects, events)
                    .await;
                if matches!(written, Err(ApiError::Refused(_))) {
                    self.report_refused(&node, effects);
                }
                written
            }
        };
        if matches!(written, Ok(()) | Err(ApiError::Refused(_))) {
            let mut all = self.pending.0.lock();
            if all
                .get(name)
                .is_some_and(|last| Arc::ptr_eq(last, &pending))
            {
                all.remove(name);
            }
        }
        written
    }

    /// The API server takes none of them, since they are one write.
    fn report_refused(&self, node: &NodeView, effects: &Effects) {
        let mut dropped = Dropped::default();
        let annotations = effects.annotations.iter().map(|(key, _)| key);
        let conditions = effects.conditions.iter().map(|(kind, _)| kind);
        for name in annotations.chain(conditions) {
            dropped.add(DropCause::Refused, name);
        }
        self.parts
            .provider
            .log_dropped_effects("node", &node.name, &dropped);
        for (_, report) in dropped.reports() {
            self.parts.node_event(node, report);
        }
    }
}

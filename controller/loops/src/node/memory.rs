//! State of the loop beyond the store of Nodes.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use outrigger_core::node::{
    NodeView,
    claims::{Claims, Duplicate},
    instance::Instance,
    maintenance::PlannedMaintenance,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::node_effects::PendingNodeEffects;
use outrigger_kubernetes::store::Store;

/// From the first failure of a node to the event about it: the cloud may not show a new instance yet.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two events about a node that cannot be initialised.
const REMIND: Duration = Duration::from_mins(1);

/// State of the loop in one lease term. A restart loses it without harm, and nothing stays of a Node that is gone.
#[derive(Debug, Default)]
pub struct CloudNodeState {
    /// Which node has, or is about to get, which provider id.
    claims: Mutex<Claims>,
    nodes: Mutex<HashMap<Arc<str>, NodeMemory>>,
    pub(super) effects: Arc<PendingNodeEffects>,
}

/// State of one Node.
#[derive(Debug)]
pub(super) struct NodeMemory {
    uid: Box<str>,
    /// Its taint is gone while another write of its initialization is to come.
    pub(super) is_unfinished: bool,
    /// Its taint may be gone: the answer to the write got lost.
    pub(super) is_unconfirmed: bool,
    /// It was seen to differ from its machine.
    pub(super) refresh_input: Option<RefreshInput>,
    /// Maintenance of its machine as the last sweep read it, where that or the Node shows some.
    maintenance: Option<MaintenanceReading>,
    /// The event about an annotation that is no switch was written.
    pub(super) is_mistaken: bool,
    /// It cannot be initialised, and an event is to say why at this time.
    report_due: Option<Instant>,
}

/// Maintenance of a machine as a sweep read it; none: the cloud announces none.
#[derive(Debug)]
struct MaintenanceReading(Option<PlannedMaintenance>);

/// The machine that a Node is brought in line with.
#[derive(Clone, Debug)]
pub(super) struct RefreshInput {
    pub(super) instance: Arc<Instance>,
    /// The sweep before read the same of its maintenance.
    pub(super) repeats_maintenance: bool,
}

impl NodeMemory {
    fn of(node: &NodeView) -> Self {
        Self {
            uid: node.uid.clone(),
            is_unfinished: false,
            is_unconfirmed: false,
            refresh_input: None,
            maintenance: None,
            is_mistaken: false,
            report_due: None,
        }
    }

    const fn is_empty(&self) -> bool {
        !self.is_unfinished
            && !self.is_unconfirmed
            && self.refresh_input.is_none()
            && self.maintenance.is_none()
            && !self.is_mistaken
            && self.report_due.is_none()
    }

    /// Notes maintenance of the machine of `node` as a sweep reads it. Returns true if the sweep before read the same.
    pub(super) fn repeats_maintenance(&mut self, node: &NodeView, instance: &Instance) -> bool {
        let read = &instance.planned_maintenance;
        let before = self.maintenance.take();
        let is_relevant = read.is_some() || node.shows_maintenance();
        self.maintenance = is_relevant.then(|| MaintenanceReading(read.clone()));
        before.is_some_and(|before| before.0 == *read)
    }

    /// It is initialised.
    pub(super) fn finish(&mut self) {
        self.is_unfinished = false;
        self.report_due = None;
    }

    /// Returns true if an event about a failure is due now.
    pub(super) fn reports(&mut self) -> bool {
        let now = Instant::now();
        let due = *self.report_due.get_or_insert(now + PATIENCE);
        if now < due {
            return false;
        }
        self.report_due = Some(now + REMIND);
        true
    }
}

impl CloudNodeState {
    /// Changes the state of `node`; none if `nodes` shows it no more.
    pub(super) fn remember<T>(
        &self,
        nodes: &Store<NodeView>,
        node: &NodeView,
        change: impl FnOnce(&mut NodeMemory) -> T,
    ) -> Option<T> {
        let mut all = self.nodes.lock();
        // Under the lock: its deletion is handled after this, or has been.
        nodes.get(&node.name).filter(|held| held.uid == node.uid)?;
        let mut entry = match all.entry(Arc::clone(&node.name)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(NodeMemory::of(node)),
        };
        if entry.get().uid != node.uid {
            entry.insert(NodeMemory::of(node));
        }
        let changed = change(entry.get_mut());
        if entry.get().is_empty() {
            entry.remove();
        }
        Some(changed)
    }

    /// The machine of `node` as it was seen last, if that differs.
    pub(super) fn refresh_input(&self, node: &NodeView) -> Option<RefreshInput> {
        let all = self.nodes.lock();
        let memory = all
            .get(&node.name)
            .filter(|memory| memory.uid == node.uid)?;
        memory.refresh_input.clone()
    }

    /// Returns true if the initialization of `node` needs another write although its taint is gone.
    pub(super) fn needs_another_write(&self, node: &NodeView) -> bool {
        let all = self.nodes.lock();
        let memory = all.get(&node.name).filter(|memory| memory.uid == node.uid);
        memory.is_some_and(|memory| memory.is_unfinished || memory.is_unconfirmed)
    }

    /// Notes the provider ID that `node` has.
    pub(super) fn claim(&self, node: &NodeView) {
        self.claims.lock().claim(&node.provider_id, &node.name);
    }

    /// Notes that `node` is about to get `provider_id`; false if `nodes` shows it no more.
    ///
    /// # Errors
    /// Another node claims it.
    pub(super) fn try_claim(
        &self,
        nodes: &Store<NodeView>,
        provider_id: &str,
        node: &NodeView,
    ) -> Result<bool, Duplicate> {
        let mut claims = self.claims.lock();
        let is_there = || {
            let held = nodes.get(&node.name);
            held.is_some_and(|held| held.uid == node.uid)
        };
        // Under the lock: its deletion is handled after this, or has been.
        if !is_there() {
            return Ok(false);
        }
        claims.try_claim(provider_id, &node.name)?;
        Ok(true)
    }

    /// The node did not get `provider_id` after all. Returns the nodes that were refused for it.
    pub(super) fn release(&self, provider_id: &str, node: &str) -> Vec<Arc<str>> {
        self.claims.lock().release(provider_id, node)
    }

    /// The node is gone. Returns the nodes that were refused for its provider ID.
    pub(super) fn forget(&self, node: &NodeView) -> Vec<Arc<str>> {
        self.effects.forget(&node.name);
        if let Entry::Occupied(entry) = self.nodes.lock().entry(Arc::clone(&node.name))
            && entry.get().uid == node.uid
        {
            entry.remove();
        }
        self.claims.lock().forget(&node.name)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.lock().is_empty() && self.effects.is_empty()
    }
}

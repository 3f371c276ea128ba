//! State of the loop beyond the store of Nodes.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use outrigger_core::{
    node::{
        NodeAddress, NodeView,
        address::{AddressDoubt, BelievedAddresses, unnamed},
        claims::{Claims, Duplicate},
        initialize,
        instance::Instance,
        maintenance::PlannedMaintenance,
    },
    repairs::{Repairs, Undone},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::node_effects::PendingNodeEffects;
use outrigger_kubernetes::store::Store;
use outrigger_runtime::clock::{Clock, until};

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
    pub(super) clock: Clock,
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
    /// It cannot be initialised, and an event is to say why at this time.
    report_due: Option<Instant>,
    /// Addresses that answers lack, or name in another order.
    doubt: AddressDoubt,
    /// Another client has given it the taint after it was initialised.
    pub(super) is_tainted_again: bool,
    pub(super) repairs: Repairs,
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
            report_due: None,
            doubt: AddressDoubt::default(),
            is_tainted_again: false,
            repairs: Repairs::default(),
        }
    }

    fn is_empty(&self) -> bool {
        !self.is_unfinished
            && !self.is_unconfirmed
            && self.refresh_input.is_none()
            && self.maintenance.is_none()
            && self.report_due.is_none()
            && self.doubt.is_empty()
            && !self.is_tainted_again
            && self.repairs == Repairs::default()
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

    /// For the event handler, which sees the deletion of `node` after this.
    pub(super) fn tainted_again(&self, node: &NodeView) {
        let mut all = self.nodes.lock();
        let of_name = all.entry(Arc::clone(&node.name));
        let memory = of_name.or_insert_with(|| NodeMemory::of(node));
        if memory.uid != node.uid {
            *memory = NodeMemory::of(node);
        }
        memory.is_tainted_again = true;
    }

    /// The fields of `node` to put right since another client has undone it, and the repairs so far.
    pub(super) fn undone(&self, node: &NodeView) -> Option<(Undone, Repairs)> {
        let all = self.nodes.lock();
        let memory = all.get(&node.name).filter(|memory| memory.uid == node.uid);
        let repairs = memory.map(|memory| memory.repairs).unwrap_or_default();
        if node.is_uninitialized() {
            let is_again = memory.is_some_and(|memory| memory.is_tainted_again);
            is_again.then_some((Undone::Taint, repairs))
        } else {
            initialize::reconcile(node).map(|_| (Undone::Label, repairs))
        }
    }

    /// The machine of `node` as it was seen last, if that differs.
    pub(super) fn refresh_input(&self, node: &NodeView) -> Option<RefreshInput> {
        let all = self.nodes.lock();
        let memory = all
            .get(&node.name)
            .filter(|memory| memory.uid == node.uid)?;
        memory.refresh_input.clone()
    }

    /// The addresses of `instance` that count for `node`, and when the provider is to be asked about it again; none if `nodes`
    /// shows it no more.
    pub(super) fn believe(
        &self,
        nodes: &Store<NodeView>,
        node: &NodeView,
        instance: &Instance,
    ) -> Option<(BelievedAddresses, Option<Duration>)> {
        let given_elsewhere = self.given_elsewhere(nodes, node, &unnamed(node, instance));
        let now = self.clock.now();
        self.remember(nodes, node, |memory| {
            let doubt = &mut memory.doubt;
            let believed = doubt.believe(now, node, instance, &given_elsewhere);
            (believed, doubt.ask_at().map(|at| until(at, now)))
        })
    }

    /// An answer says something else of `node` than its addresses.
    pub(super) fn forget_doubt(&self, nodes: &Store<NodeView>, node: &NodeView) {
        let forget = |memory: &mut NodeMemory| memory.doubt = AddressDoubt::default();
        self.remember(nodes, node, forget);
    }

    /// The part of `addresses` that counts for another Node than `node`, unless the other Node keeps it too.
    fn given_elsewhere(
        &self,
        nodes: &Store<NodeView>,
        node: &NodeView,
        addresses: &[NodeAddress],
    ) -> Vec<Box<str>> {
        let mut shared = Vec::new();
        if addresses.iter().any(NodeAddress::is_ip) {
            nodes.for_each(|other| {
                let others = other.addresses.iter().filter(|one| one.is_ip());
                let of_both =
                    others.filter(|one| other.name != node.name && addresses.contains(one));
                shared.extend(of_both.map(|one| (Arc::clone(&other.name), one.address.clone())));
            });
        }
        let all = self.nodes.lock();
        shared.retain(|(name, address)| {
            let memory = all.get(name);
            !memory.is_some_and(|memory| memory.doubt.is_about(address))
        });
        shared.into_iter().map(|(_, address)| address).collect()
    }

    /// The cloud gives `addresses` to `node`: the other Nodes that keep some of them, which lose these.
    pub(super) fn take_from_others(
        &self,
        node: &NodeView,
        addresses: &[&NodeAddress],
    ) -> Vec<(Arc<str>, Box<str>)> {
        let now = self.clock.now();
        let mut all = self.nodes.lock();
        let others = all.iter_mut().filter(|(name, _)| **name != node.name);
        let mut taken = Vec::new();
        for (name, memory) in others {
            for address in addresses {
                if memory.doubt.is_about(&address.address) {
                    memory.doubt.give_up(now, &address.address);
                    taken.push((Arc::clone(name), address.address.clone()));
                }
            }
        }
        taken
    }

    /// Returns true if the provider is to be asked about `node` now, for what its last answer lacks.
    pub(super) fn is_asked_again(&self, node: &NodeView) -> bool {
        let now = self.clock.now();
        let all = self.nodes.lock();
        let memory = all.get(&node.name).filter(|memory| memory.uid == node.uid);
        let at = memory.and_then(|memory| memory.doubt.ask_at());
        at.is_some_and(|at| at <= now)
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

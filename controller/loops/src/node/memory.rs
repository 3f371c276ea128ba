//! State of the cloud-node loop in one lease term, beyond the store of Nodes.
//!
//! `sync` and `refresh` read and change the entry of one Node under one lock; the event handlers forget a Node that is
//! gone. Each change checks under the lock that the store still has the Node, so that nothing stays of a Node that is
//! deleted meanwhile.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use outrigger_core::{
    node::{
        NodeAddress, NodeView,
        address::{AddressDoubt, BelievedAddresses, unnamed},
        claims::{Claims, Duplicate},
        instance::Instance,
        maintenance::Unannounced,
        plan::repair,
    },
    repairs::{Repairs, Undone},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::node_effects::PendingNodeEffects;
use outrigger_kube::store::Store;
use outrigger_runtime::clock::{Clock, until};

/// From the first look at a node to the event about its taint: the cloud may not show a new instance yet.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

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
#[derive(Debug, Default, PartialEq)]
pub(super) struct NodeMemory {
    uid: Box<str>,
    /// Its machine, where the two differ, or did before the last write.
    pub(super) machine: Option<Arc<Instance>>,
    /// It is being initialised, and no event says yet that it is: the answer to the write may have been lost.
    pub(super) is_new: bool,
    /// It waits for its initialization, and an event is to say why at this time.
    report_due: Option<Instant>,
    /// Addresses that answers lack, or name in another order.
    doubt: AddressDoubt,
    /// Answers that lack the maintenance that it shows.
    unannounced: Unannounced,
    /// The write that another client has undone last.
    pub(super) undone: Option<Undone>,
    pub(super) repairs: Repairs,
}

impl NodeMemory {
    fn of(uid: &str) -> Self {
        Self {
            uid: uid.into(),
            ..Self::default()
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::of(&self.uid)
    }

    /// It is in line with `machine`.
    pub(super) fn finish(&mut self, machine: &Arc<Instance>) {
        self.machine.take_if(|last| Arc::ptr_eq(last, machine));
        self.report_due = None;
    }

    /// When an event about its taint is due.
    pub(super) fn report_due(&mut self) -> Instant {
        *self.report_due.get_or_insert(Instant::now() + PATIENCE)
    }

    /// How long until an event about its taint is due; zero: now, and the next one later.
    pub(super) fn report_in(&mut self) -> Duration {
        let wait = self.report_due().saturating_duration_since(Instant::now());
        if wait.is_zero() {
            self.report_due = Some(Instant::now() + REMIND);
        }
        wait
    }

    /// Counts that another client has rewritten the addresses in the status since the last call, if it has. Returns true if it
    /// has done so before.
    pub(super) fn addresses_rewritten(&mut self, now: Timestamp) -> bool {
        if self
            .undone
            .take_if(|undone| *undone == Undone::NodeAddresses)
            .is_none()
        {
            return false;
        }
        let is_again = self.repairs.is_again(now);
        self.repairs.made(now);
        is_again
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
        nodes.newest(node)?;
        let mut entry = match all.entry(Arc::clone(&node.name)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(NodeMemory::of(&node.uid)),
        };
        if entry.get().uid != node.uid {
            entry.insert(NodeMemory::of(&node.uid));
        }
        let changed = change(entry.get_mut());
        if entry.get().is_empty() {
            entry.remove();
        }
        Some(changed)
    }

    /// Another client has undone `what`. For the event handler, which sees the deletion of `node` after this.
    pub(super) fn undone_by_another(&self, node: &NodeView, what: Undone) {
        let mut all = self.nodes.lock();
        let of_name = all.entry(Arc::clone(&node.name));
        let memory = of_name.or_insert_with(|| NodeMemory::of(&node.uid));
        if memory.uid != node.uid {
            *memory = NodeMemory::of(&node.uid);
        }
        memory.undone = Some(what);
    }

    /// The fields of `node` to put right since another client has undone it, and the repairs so far.
    pub(super) fn undone(&self, node: &NodeView) -> Option<(Undone, Repairs)> {
        let of_node = self.of(node, |memory| (memory.undone, memory.repairs));
        let (undone, repairs) = of_node.unwrap_or_default();
        if node.is_uninitialized() {
            let undone = undone.filter(|undone| *undone == Undone::Taint);
            undone.map(|undone| (undone, repairs))
        } else {
            repair(node).map(|_| (Undone::Label, repairs))
        }
    }

    /// The machine of `node` as it was seen last, if the two differ.
    pub(super) fn machine(&self, node: &NodeView) -> Option<Arc<Instance>> {
        self.of(node, |memory| memory.machine.clone())?
    }

    /// Returns true if an event has to say that `node` is initialised.
    pub(super) fn is_new(&self, node: &NodeView) -> bool {
        self.of(node, |memory| memory.is_new).unwrap_or_default()
    }

    /// How many answers lack the maintenance that `node` shows.
    pub(super) fn unannounced(&self, node: &NodeView) -> Unannounced {
        self.of(node, |memory| memory.unannounced)
            .unwrap_or_default()
    }

    fn of<T>(&self, node: &NodeView, read: impl FnOnce(&NodeMemory) -> T) -> Option<T> {
        let all = self.nodes.lock();
        let memory = all.get(&node.name);
        memory.filter(|memory| memory.uid == node.uid).map(read)
    }

    /// Counts the answer `instance` about `node`. The addresses that count for it, and when the provider is to be asked about
    /// it again; none if `nodes` shows it no more.
    pub(super) fn believe(
        &self,
        nodes: &Store<NodeView>,
        node: &NodeView,
        instance: &Instance,
    ) -> Option<(BelievedAddresses, Option<Duration>)> {
        let given_elsewhere = self.given_elsewhere(nodes, node, &unnamed(node, instance));
        let now = self.clock.now();
        self.remember(nodes, node, |memory| {
            memory.unannounced.count(node, instance);
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

    /// The cloud gives `addresses` to `node`: the other Nodes that keep some of them, to be asked about now.
    pub(super) fn keepers_of(&self, node: &NodeView, addresses: &[&NodeAddress]) -> Vec<Arc<str>> {
        let now = self.clock.now();
        let mut all = self.nodes.lock();
        let others = all.iter_mut().filter(|(name, _)| **name != node.name);
        let keepers = others.filter_map(|(name, memory)| {
            let keeps = |one: &&NodeAddress| memory.doubt.is_about(&one.address);
            addresses.iter().any(keeps).then(|| {
                memory.doubt.ask_now(now);
                Arc::clone(name)
            })
        });
        keepers.collect()
    }

    /// Returns true if the provider is to be asked about `node` now, for what its last answer lacks.
    pub(super) fn is_asked_again(&self, node: &NodeView) -> bool {
        let at = self.of(node, |memory| memory.doubt.ask_at()).flatten();
        at.is_some_and(|at| at <= self.clock.now())
    }

    /// Notes the provider ID that `node` has.
    pub(super) fn claim(&self, node: &NodeView) {
        self.claims.lock().claim(&node.provider_id, &node.name);
    }

    /// Notes that the cloud calls the machine of `node` `provider_id`, unless `nodes` shows the node no more.
    pub(super) fn claim_spelling(
        &self,
        nodes: &Store<NodeView>,
        provider_id: &str,
        node: &NodeView,
    ) {
        let mut claims = self.claims.lock();
        // Under the lock, as below.
        if nodes.newest(node).is_some() {
            claims.claim(provider_id, &node.name);
        }
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
        // Under the lock: its deletion is handled after this, or has been.
        if nodes.newest(node).is_none() {
            return Ok(false);
        }
        claims.try_claim(provider_id, &node.name)?;
        Ok(true)
    }

    /// The node has no provider ID after all. Returns the nodes that were refused an ID.
    pub(super) fn release(&self, node: &str) -> BTreeSet<Arc<str>> {
        self.claims.lock().release(node)
    }

    /// The node is gone. Returns the nodes that were refused an ID, perhaps its own.
    pub(super) fn forget(&self, node: &NodeView) -> BTreeSet<Arc<str>> {
        self.effects.forget(&node.name);
        if let Entry::Occupied(entry) = self.nodes.lock().entry(Arc::clone(&node.name))
            && entry.get().uid == node.uid
        {
            entry.remove();
        }
        self.release(&node.name)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.lock().is_empty() && self.effects.is_empty()
    }
}

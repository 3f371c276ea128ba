//! The drill's own actions, which the invariants compare the provider's journal with.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Record of the drill's changes so far. Clones share one ledger.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    /// UIDs of Services that the drill deleted or gave another type.
    released: HashSet<String>,
    /// UIDs of Nodes that the drill deleted.
    deleted_nodes: HashSet<String>,
    /// When the drill last changed a route in the cloud, by destination.
    routes: HashMap<IpNet, Micros>,
    /// When a process got SIGTERM.
    terminated: HashMap<i32, Micros>,
    /// The process that made the last changing call.
    writer: Option<i32>,
    /// The provider has declared, for a while, the class of another provider.
    other_class: bool,
    /// How many disturbances go on.
    disturbances: usize,
    /// When the last one ended.
    undisturbed_since: Option<Instant>,
}

/// Microseconds since 1970, as in the provider's journal.
pub(super) type Micros = u64;

pub(super) fn now() -> Micros {
    jiff::Timestamp::now().as_microsecond() as Micros
}

/// As long as it lives, something that the controller needs is missing on purpose.
pub(super) struct Disturbance(Ledger);

impl Drop for Disturbance {
    fn drop(&mut self) {
        let mut facts = self.0.0.lock();
        facts.disturbances -= 1;
        facts.undisturbed_since = Some(Instant::now());
    }
}

impl Ledger {
    /// To be called before the request that deletes a Service or changes its type.
    pub(super) fn release(&self, uid: &str) {
        self.0.lock().released.insert(uid.to_owned());
    }

    pub(super) fn is_released(&self, uid: &str) -> bool {
        self.0.lock().released.contains(uid)
    }

    /// To be called before the request that deletes a Node.
    pub(super) fn delete_node(&self, uid: &str) {
        self.0.lock().deleted_nodes.insert(uid.to_owned());
    }

    pub(super) fn is_deleted_node(&self, uid: &str) -> bool {
        self.0.lock().deleted_nodes.contains(uid)
    }

    /// To be called right before the drill changes the route in the cloud.
    pub(super) fn change_route(&self, destination: IpNet) {
        self.0.lock().routes.insert(destination, now());
    }

    /// When the drill last changed the route.
    pub(super) fn route_changed_at(&self, destination: IpNet) -> Option<Micros> {
        self.0.lock().routes.get(&destination).copied()
    }

    /// To be called right before the signal.
    pub(super) fn terminate(&self, process: i32) {
        self.0.lock().terminated.insert(process, now());
    }

    /// When a process got SIGTERM.
    pub(super) fn terminated_at(&self, process: i32) -> Option<Micros> {
        self.0.lock().terminated.get(&process).copied()
    }

    pub(super) fn wrote(&self, process: i32) {
        self.0.lock().writer = Some(process);
    }

    /// The process that made the last changing call.
    pub(super) fn writer(&self) -> Option<i32> {
        self.0.lock().writer
    }

    /// The provider declares the class of another provider, for a while.
    pub(super) fn declare_other_class(&self) {
        self.0.lock().other_class = true;
    }

    pub(super) fn declared_other_class(&self) -> bool {
        self.0.lock().other_class
    }

    /// Something that the controller needs is missing until the result is dropped.
    pub(super) fn disturb(&self) -> Disturbance {
        self.0.lock().disturbances += 1;
        Disturbance(self.clone())
    }

    /// How long nothing has been missing; `None`: something is missing now.
    pub(super) fn undisturbed(&self) -> Option<Duration> {
        let facts = self.0.lock();
        let since = facts.undisturbed_since.filter(|_| facts.disturbances == 0);
        since.map(|since| since.elapsed())
    }
}

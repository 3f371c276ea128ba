//! The state of a lease term.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use outrigger_core::{
    cidr::Cidr,
    node::NodeView,
    route::{ObservedRoute, RouteNodes, RouteTable},
};
use parking_lot::{Mutex, MutexGuard};

use crate::{kube::store::Store, node_effects::PendingNodeEffects};

/// The routes and Nodes that decisions of one lease term rest on.
#[derive(Debug)]
pub struct RouteState {
    nodes: Arc<Store<NodeView>>,
    known: Mutex<RouteFindings>,
    pub(super) effects: Arc<PendingNodeEffects>,
}

/// Under one lock, since a decision needs all of it.
#[derive(Debug, Default)]
pub(super) struct RouteFindings {
    pub(super) table: RouteTable,
    pub(super) nodes: RouteNodes,
    /// Destinations for which no route could be made when that was last tried.
    pub(super) failed: BTreeSet<Cidr>,
    /// Pod CIDRs, by the UID of their Node, with a Warning in this lease term.
    reported: HashSet<(Box<str>, Cidr)>,
}

impl RouteFindings {
    /// A route that failed for the Node as it was may be made for the Node as it is.
    fn observe(&mut self, node: &Arc<NodeView>) -> BTreeSet<Cidr> {
        let destinations = self.nodes.observe(node);
        self.tried_no_more(destinations)
    }

    fn forget(&mut self, name: &str, uid: &str) -> BTreeSet<Cidr> {
        self.reported.retain(|(reported, _)| **reported != *uid);
        let destinations = self.nodes.forget(name, uid);
        self.tried_no_more(destinations)
    }

    fn tried_no_more(&mut self, destinations: BTreeSet<Cidr>) -> BTreeSet<Cidr> {
        for destination in &destinations {
            self.failed.remove(destination);
        }
        destinations
    }

    /// Whether a Warning about this Pod CIDR is due.
    pub(super) fn is_new(&mut self, node: &NodeView, destination: Cidr) -> bool {
        self.reported.insert((node.uid.clone(), destination))
    }
}

impl RouteState {
    pub(super) fn new(nodes: Arc<Store<NodeView>>) -> Self {
        Self {
            nodes,
            known: Mutex::default(),
            effects: Arc::default(),
        }
    }

    /// All of it. Not to be held over a wait.
    pub(super) fn known(&self) -> MutexGuard<'_, RouteFindings> {
        self.known.lock()
    }

    /// Observes the Node as the store has it now: two threads may call the handlers of two changes in
    /// either order. Returns the destinations to be reconciled.
    pub(super) fn observe(&self, name: &str) -> BTreeSet<Cidr> {
        let mut known = self.known();
        match self.nodes.get(name) {
            Some(node) => known.observe(&node),
            None => BTreeSet::new(),
        }
    }

    /// Observes a Node that the API server has just shown. The store may have a later view of it.
    pub(super) fn observe_live(&self, live: NodeView) -> BTreeSet<Cidr> {
        let live = Arc::new(live);
        self.nodes.refresh(&live);
        let mut known = self.known();
        let held = self.nodes.get(&live.name);
        let held = held.filter(|held| held.uid == live.uid);
        known.observe(&held.unwrap_or(live))
    }

    /// The Node is gone. Returns the destinations to be reconciled.
    pub(super) fn forget(&self, name: &str, uid: &str) -> BTreeSet<Cidr> {
        self.known().forget(name, uid)
    }

    /// The API server has no Node of this name.
    pub(super) fn forget_named(&self, name: &str) -> BTreeSet<Cidr> {
        let mut known = self.known();
        match known.nodes.get(name).cloned() {
            Some(node) => known.forget(name, &node.uid),
            None => BTreeSet::new(),
        }
    }

    /// Forgets the Nodes that only the API server has shown and the store still lacks: they are asked for
    /// again where it matters.
    pub(super) fn forget_unwatched(&self) -> BTreeSet<Cidr> {
        let mut known = self.known();
        let is_unwatched = |node: &&Arc<NodeView>| {
            let held = self.nodes.get(&node.name);
            held.is_none_or(|held| held.uid != node.uid)
        };
        let unwatched: Vec<_> = known.nodes.iter().filter(is_unwatched).cloned().collect();
        let forgotten = unwatched.iter();
        forgotten
            .flat_map(|node| known.forget(&node.name, &node.uid))
            .collect()
    }

    /// All Pod CIDRs, and the destinations of all routes.
    pub(super) fn destinations(&self) -> BTreeSet<Cidr> {
        let known = self.known();
        let routes = known.table.iter().map(ObservedRoute::destination);
        known.nodes.destinations().chain(routes).collect()
    }
}

//! The Nodes of the store, by name and by Pod CIDR.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::Arc,
};

use super::{ObservedRoute, fit::Fit};
use crate::{cidr::Cidr, node::NodeView};

/// All Nodes of the cluster. They come in the order of the store, and from the API server itself
/// where a plan asks for that.
#[derive(Clone, Debug, Default)]
pub struct RouteNodes {
    nodes: HashMap<Arc<str>, Arc<NodeView>>,
    claims: BTreeMap<Cidr, Vec<Arc<str>>>,
}

impl RouteNodes {
    /// Notes the present state of `node`. The destinations are those to be reconciled, since
    /// something about the Node changed that a route rests on.
    pub fn observe(&mut self, node: &Arc<NodeView>) -> BTreeSet<Cidr> {
        // Shared with the store, so that no older view is kept.
        if let Some(known) = self.nodes.get_mut(&node.name)
            && is_alike(known, node)
        {
            *known = Arc::clone(node);
            return BTreeSet::new();
        }
        let mut destinations = self.remove(&node.name);
        for cidr in pod_cidrs(node) {
            // One Node for a CIDR is the rule: no spare room for more.
            let nodes = self.claims.entry(cidr);
            let nodes = nodes.or_insert_with(|| Vec::with_capacity(1));
            // By name, so that each replica decides alike about a duplicate.
            let place = nodes.partition_point(|other| *other < node.name);
            nodes.insert(place, Arc::clone(&node.name));
            destinations.insert(cidr);
        }
        self.nodes.insert(Arc::clone(&node.name), Arc::clone(node));
        destinations
    }

    /// The Node of this UID is gone. The destinations are those to be reconciled.
    pub fn forget(&mut self, node: &str, uid: &str) -> BTreeSet<Cidr> {
        match self.nodes.get(node) {
            Some(known) if *known.uid == *uid => self.remove(node),
            _ => BTreeSet::new(),
        }
    }

    /// The Pod CIDRs of all Nodes.
    pub fn destinations(&self) -> impl Iterator<Item = Cidr> {
        self.claims.keys().copied()
    }

    /// The Node of this name.
    pub fn get(&self, node: &str) -> Option<&Arc<NodeView>> {
        self.nodes.get(node)
    }

    /// All Nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<NodeView>> {
        self.nodes.values()
    }

    /// The Nodes that have `destination` among their Pod CIDRs, by name.
    pub fn with(&self, destination: Cidr) -> impl Iterator<Item = &Arc<NodeView>> {
        let names = self.claims.get(&destination).into_iter().flatten();
        names.filter_map(|name| self.nodes.get(name))
    }

    /// The name of the Node that `route` leads to or led to: the one that it names, one of those known, or the one
    /// that it was made for.
    pub(super) fn target_of(&self, route: &ObservedRoute) -> Option<Arc<str>> {
        let named = route.node_name().map(Arc::from);
        let made_for = || Some(Arc::from(&*route.made_for.as_ref()?.node));
        named.or_else(|| self.found(route)).or_else(made_for)
    }

    /// The name of the known Node that `route` leads to or led to.
    pub(super) fn found(&self, route: &ObservedRoute) -> Option<Arc<str>> {
        let is_target =
            |node: &&Arc<NodeView>| !matches!(route.fit(node), Fit::Other | Fit::Undecided);
        let found = self.nodes.values().find(is_target);
        found.map(|node| Arc::clone(&node.name))
    }

    fn remove(&mut self, node: &str) -> BTreeSet<Cidr> {
        let Some(known) = self.nodes.remove(node) else {
            return BTreeSet::new();
        };
        let destinations: BTreeSet<_> = pod_cidrs(&known).collect();
        for cidr in &destinations {
            if let Entry::Occupied(mut entry) = self.claims.entry(*cidr) {
                entry.get_mut().retain(|name| **name != *node);
                if entry.get().is_empty() {
                    entry.remove();
                }
            }
        }
        destinations
    }
}

/// The destinations of its routes; a text that is no CIDR is none.
pub(super) fn pod_cidrs(node: &NodeView) -> impl Iterator<Item = Cidr> {
    node.pod_cidrs.iter().filter_map(|cidr| Cidr::parse(cidr))
}

/// Whether every plan is the same for both.
fn is_alike(one: &NodeView, other: &NodeView) -> bool {
    one.uid == other.uid
        && one.pod_cidrs == other.pod_cidrs
        && one.provider_id == other.provider_id
        && one.addresses == other.addresses
        && one.labels == other.labels
        && one.is_uninitialized() == other.is_uninitialized()
        && one.is_paused() == other.is_paused()
}

#[cfg(test)]
mod tests;

//! Which Node has which Pod CIDRs.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
};

use crate::cidr::Cidr;

/// Nodes by name, and by each CIDR.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    nodes: HashMap<Arc<str>, Holding>,
    cidrs: BTreeMap<Cidr, Vec<Arc<str>>>,
}

/// The CIDRs of one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) uid: Box<str>,
    /// By their places in `spec.podCIDRs`; none for a text that is no CIDR.
    pub(super) cidrs: Box<[Option<Cidr>]>,
    /// Whether the Node was seen with them; else they were allocated, and perhaps not written.
    pub(super) is_observed: bool,
}

impl Holding {
    pub(super) fn cidrs(&self) -> impl Iterator<Item = Cidr> {
        self.cidrs.iter().copied().flatten()
    }
}

impl Holders {
    pub(super) fn get(&self, node: &str) -> Option<&Holding> {
        self.nodes.get(node)
    }

    /// `node` has no other CIDRs: the caller removed them.
    pub(super) fn insert(&mut self, node: &Arc<str>, holding: Holding) {
        for cidr in holding.cidrs() {
            // One Node for a CIDR is the rule: no spare room for more.
            let nodes = self
                .cidrs
                .entry(cidr)
                .or_insert_with(|| Vec::with_capacity(1));
            nodes.push(Arc::clone(node));
        }
        self.nodes.insert(Arc::clone(node), holding);
    }

    pub(super) fn remove(&mut self, node: &str) -> Option<Holding> {
        let holding = self.nodes.remove(node)?;
        for cidr in holding.cidrs() {
            if let Entry::Occupied(mut entry) = self.cidrs.entry(cidr) {
                entry.get_mut().retain(|holder| **holder != *node);
                if entry.get().is_empty() {
                    entry.remove();
                }
            }
        }
        Some(holding)
    }

    /// Each CIDR that has an address of `cidr`, with its Node.
    pub(super) fn overlapping(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &Arc<str>)> {
        let within = self.cidrs.range(cidr.span());
        let around = cidr.supernets();
        let around = around.filter_map(|range| self.cidrs.get_key_value(&range));
        let all = within.chain(around);
        all.flat_map(|(cidr, nodes)| nodes.iter().map(|node| (*cidr, node)))
    }

    /// A Node other than `node` that was seen with an address of `cidr`, and its CIDR.
    pub(super) fn other(&self, cidr: Cidr, node: &str) -> Option<(Cidr, &Arc<str>)> {
        let mut all = self.overlapping(cidr);
        all.find(|(_, other)| {
            ***other != *node && self.get(other).is_some_and(|holding| holding.is_observed)
        })
    }
}

//! Which Node has which Pod CIDRs.

use std::{collections::BTreeMap, sync::Arc};

use crate::cidr::{Cidr, CidrMap};

/// Nodes by name, and by each CIDR.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    nodes: BTreeMap<Arc<str>, Holding>,
    cidrs: CidrMap<Arc<str>>,
}

/// The CIDRs of one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub(super) uid: Box<str>,
    /// By their places in `spec.podCIDRs`; none for a text that is no CIDR.
    pub(super) cidrs: Box<[Option<Cidr>]>,
    /// True if the Node was observed with them. Otherwise they were allocated, and perhaps not written.
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
            self.cidrs.insert(cidr, Arc::clone(node));
        }
        self.nodes.insert(Arc::clone(node), holding);
    }

    pub(super) fn remove(&mut self, node: &str) -> Option<Holding> {
        let holding = self.nodes.remove(node)?;
        for cidr in holding.cidrs() {
            self.cidrs.remove(cidr, |holder| **holder == *node);
        }
        Some(holding)
    }

    /// Each CIDR that has an address of `cidr`, with its Node.
    pub(super) fn overlapping(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &Arc<str>)> {
        self.cidrs.overlapping(cidr)
    }

    /// Returns the CIDRs of [`Self::overlapping`] that are inside `cidr`, itself included.
    pub(super) fn within(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &Arc<str>)> {
        self.cidrs.within(cidr)
    }

    /// The Nodes other than `node` that were seen with an address of `cidr`, and their CIDRs.
    pub(super) fn others(&self, cidr: Cidr, node: &str) -> impl Iterator<Item = (Cidr, &Arc<str>)> {
        self.overlapping(cidr).filter(move |(_, other)| {
            ***other != *node && self.get(other).is_some_and(|holding| holding.is_observed)
        })
    }
}

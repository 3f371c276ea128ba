//! Nodes that wait for a Pod CIDR of another Node to become free.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A deletion wakes one Node, and each Node that leaves the wait the next: as many get a CIDR as there is room for, and
/// none is tried in vain but the last.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Waiting Nodes; true if the Node was queued again and has not been tried since.
    nodes: BTreeMap<Arc<str>, bool>,
    /// Refused, since another Node has their CIDRs.
    refused: BTreeSet<Arc<str>>,
}

impl Waiting {
    /// The Node was tried in vain. Returns whether its wait begins.
    pub(super) fn wait(&mut self, name: &Arc<str>) -> bool {
        self.nodes.insert(Arc::clone(name), false).is_none()
    }

    /// The Node waits no more. Returns the one to be tried next.
    pub(super) fn leave(&mut self, name: &str) -> Option<Arc<str>> {
        self.refused.remove(name);
        self.nodes.remove(name).and_then(|_| self.next())
    }

    /// The Node to be tried next.
    pub(super) fn next(&mut self) -> Option<Arc<str>> {
        let next = self.nodes.iter_mut().find(|(_, is_woken)| !**is_woken);
        next.map(|(name, is_woken)| {
            *is_woken = true;
            Arc::clone(name)
        })
    }

    /// The Node has to wait for the deletion of the one that has its CIDRs.
    pub(super) fn refuse(&mut self, name: &Arc<str>) {
        self.refused.insert(Arc::clone(name));
    }

    /// Nodes that were refused, to be tried again.
    pub(super) fn refused(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.refused)
    }
}

//! The Pod CIDRs of all Nodes, as far as they are known in one lease term.
//!
//! [`super::plan()`] is the only caller that allocates; the loop observes and forgets. The promise is in [`super`]: a CIDR
//! that was allocated is given to no other Node, unless another client has written it there.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    PodCidrProblem,
    pool::{Pool, PoolSize},
};
use crate::{
    cidr::{Cidr, CidrMap, one_of_each_family},
    fault::Excerpt,
    node::NodeView,
};

/// State of one lease term. It begins empty: before the first CIDR is allocated, each Node of a list
/// must be observed by [`Allocator::observe_listed`], and then each Node of the store, which may be older.
///
/// Nodes come in the order of the store, and a Node of another UID takes the place of the one that
/// had its name.
#[derive(Clone, Debug)]
pub struct Allocator {
    /// `RangeAllocator`: one pool for each cluster CIDR, by their places (I-8). `CloudAllocator`: none, and the CIDRs are the
    /// provider's `Instance.pod_cidrs`.
    pools: Vec<Pool>,
    holders: Holders,
    /// UIDs of Nodes of the list that the store has not shown yet.
    awaited: BTreeMap<Arc<str>, Box<str>>,
}

/// A cluster CIDR has no CIDR left (I-13). Upstream's text, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to allocate cidr from cluster cidr at idx:{pool}: CIDR allocation failed; there are no \
     remaining CIDRs left to allocate in the accepted range {range}: delete Nodes that are not \
     needed, or extend --cluster-cidr"
)]
pub struct Exhausted {
    /// Place of the cluster CIDR.
    pub pool: usize,
    /// The cluster CIDR.
    pub range: Cidr,
}

impl Allocator {
    /// Allocates from `pools`.
    pub fn from_pools(pools: Vec<Pool>) -> Self {
        Self {
            pools,
            holders: Holders::default(),
            awaited: BTreeMap::new(),
        }
    }

    /// Takes the CIDRs that the provider names.
    pub fn from_provider() -> Self {
        Self::from_pools(Vec::new())
    }

    /// Returns true if the provider allocates. It must then serve allocation.
    pub const fn asks_provider(&self) -> bool {
        self.pools.is_empty()
    }

    /// Notes the Pod CIDRs of a Node of the list at the start of the lease term (I-7).
    pub fn observe_listed(&mut self, node: &NodeView) -> Vec<PodCidrProblem> {
        let uid = node.uid.clone();
        self.awaited.insert(Arc::clone(&node.name), uid);
        self.note(node)
    }

    /// Notes the Pod CIDRs of a Node of the store, unless the list had another Node of its name: either
    /// the store will show that one, or it is gone and must be [forgotten](Self::forget).
    pub fn observe(&mut self, node: &NodeView) -> Vec<PodCidrProblem> {
        if self
            .awaited(&node.name)
            .is_some_and(|uid| *uid != *node.uid)
        {
            return Vec::new();
        }
        self.awaited.remove(&node.name);
        self.note(node)
    }

    /// UID of the Node of this name in the list, if the store has not shown it yet. Nothing is decided
    /// about the name until then.
    pub fn awaited(&self, name: &str) -> Option<&str> {
        self.awaited.get(name).map(|uid| &**uid)
    }

    /// Names of all Nodes that are awaited.
    pub fn all_awaited(&self) -> impl Iterator<Item = &Arc<str>> {
        self.awaited.keys()
    }

    /// Notes the Pod CIDRs of `node`. The problems are those of a Node that was not seen with
    /// these CIDRs before, so that they are reported once.
    ///
    /// A Node without Pod CIDRs keeps those that were allocated to it.
    fn note(&mut self, node: &NodeView) -> Vec<PodCidrProblem> {
        let holding_before = self.holders.get(&node.name);
        let is_same_node = holding_before.is_some_and(|holding| holding.uid == node.uid);
        if node.pod_cidrs.is_empty() && (is_same_node || holding_before.is_none()) {
            return Vec::new();
        }
        let cidrs = node
            .pod_cidrs
            .iter()
            .map(|cidr| Cidr::parse(cidr))
            .collect();
        let holding = Holding {
            uid: node.uid.clone(),
            cidrs,
            is_observed: true,
        };
        if holding_before == Some(&holding) {
            return Vec::new();
        }
        self.holders.remove(&node.name);
        if node.pod_cidrs.is_empty() {
            return Vec::new();
        }
        let problems = self.problems(node, &holding);
        self.holders.insert(&node.name, holding);
        problems
    }

    /// Returns true if this Node was observed with Pod CIDRs. They never change.
    pub(super) fn has_observed_cidrs(&self, node: &NodeView) -> bool {
        let holding = self.holders.get(&node.name);
        holding.is_some_and(|holding| holding.is_observed && holding.uid == node.uid)
    }

    /// Allocates one CIDR of each pool, or none. They are the Node's until it is observed with
    /// Pod CIDRs or forgotten: another call returns the same, unless another Node was observed with
    /// one of them. Those of earlier calls stay reserved too, for a write of them may have been carried out. Returns
    /// `None` if the provider allocates.
    pub(super) fn allocate(&mut self, node: &NodeView) -> Option<Result<Box<[Cidr]>, Exhausted>> {
        if self.asks_provider() {
            return None;
        }
        let holding = self.holders.get(&node.name);
        let mut cidrs: Vec<_> = holding.into_iter().flat_map(Holding::cidrs).collect();
        let last = cidrs.len().saturating_sub(self.pools.len());
        let last = cidrs.get(last..).unwrap_or_default();
        let is_free = |cidr: &Cidr| self.other(*cidr, node).is_none();
        if !last.is_empty() && last.iter().all(is_free) {
            return Some(Ok(last.into()));
        }
        let free = self.pools.iter().enumerate().map(|(place, pool)| {
            let range = pool.range();
            let free = pool.free(|block| self.in_use(pool, block));
            free.ok_or(Exhausted { pool: place, range })
        });
        let taken: Box<[Cidr]> = match free.collect() {
            Ok(taken) => taken,
            Err(exhausted) => return Some(Err(exhausted)),
        };
        for (pool, block) in self.pools.iter_mut().zip(&taken) {
            pool.taken(*block);
        }
        cidrs.extend(&taken);
        self.holders.remove(&node.name);
        self.reserve(node, &cidrs);
        Some(Ok(taken))
    }

    /// Reserves the CIDRs that the provider names for `node`, if they are legal and no other Node has
    /// or gets them. Empty: the cloud has none for it yet.
    pub(super) fn claim(
        &mut self,
        node: &NodeView,
        given: &[impl AsRef<str>],
    ) -> Result<Box<[Cidr]>, PodCidrProblem> {
        let cidrs = one_of_each_family(given.iter().map(AsRef::as_ref));
        let cidrs = cidrs.map_err(|defect| {
            let name = &node.name;
            PodCidrProblem::invalid(format!(
                "the provider's pod_cidrs for Node {name}: {defect}"
            ))
        })?;
        // The current answer counts, not the one before.
        self.holders.remove(&node.name);
        for cidr in &cidrs {
            if let Some(other) = self.holders.cidrs.overlapping(*cidr).next() {
                return Err(duplicate(*cidr, node, other));
            }
        }
        if !cidrs.is_empty() {
            self.reserve(node, &cidrs);
        }
        Ok(cidrs.into())
    }

    /// The Node of this UID is gone, perhaps before its CIDRs were written: they are free,
    /// except those that another Node has too (I-17). Returns them.
    pub fn forget(&mut self, node: &str, uid: &str) -> Vec<Cidr> {
        if self.awaited(node) == Some(uid) {
            self.awaited.remove(node);
        }
        let is_meant = |holding: &Holding| *holding.uid == *uid;
        let is_held = self.holders.get(node).is_some_and(is_meant);
        let freed = is_held.then(|| self.holders.remove(node)).flatten();
        freed.iter().flat_map(Holding::cidrs).collect()
    }

    /// The cluster CIDRs.
    pub fn ranges(&self) -> impl Iterator<Item = Cidr> {
        self.pools.iter().map(Pool::range)
    }

    /// Each cluster CIDR, and how many CIDRs of it are left. Looks at all Nodes.
    pub fn sizes(&self) -> impl Iterator<Item = (Cidr, PoolSize)> {
        self.pools.iter().map(|pool| {
            let held = self.holders.cidrs.within(pool.range());
            let counted = held.filter(|(cidr, node)| self.counts(pool, *cidr, node));
            (pool.range(), pool.size(counted.map(|(cidr, _)| cidr)))
        })
    }

    /// Length of the prefix that a Node gets from `range`; none where the provider allocates.
    pub fn node_prefix(&self, range: Cidr) -> Option<u8> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.range() == range);
        pool.map(Pool::node_prefix)
    }

    fn reserve(&mut self, node: &NodeView, cidrs: &[Cidr]) {
        let reserved = Holding {
            uid: node.uid.clone(),
            cidrs: cidrs.iter().copied().map(Some).collect(),
            is_observed: false,
        };
        self.holders.insert(&node.name, reserved);
    }

    /// A CIDR of `pool` that a Node has or gets, with an address of `block`.
    fn in_use(&self, pool: &Pool, block: Cidr) -> Option<Cidr> {
        let mut overlapping = self.holders.cidrs.overlapping(block);
        let used = overlapping.find(|(cidr, node)| self.counts(pool, *cidr, node));
        used.map(|(cidr, _)| cidr)
    }

    /// Returns true if the blocks of `pool` with an address of `cidr`, which `node` has, are in use. A range that reaches
    /// beyond the pool would use all of it. A range that is too wide does not count while another Node has a part of it: its
    /// kubelet may have made it up.
    fn counts(&self, pool: &Pool, cidr: Cidr, node: &Arc<str>) -> bool {
        let is_alone = || {
            let mut overlapping = self.holders.cidrs.overlapping(cidr);
            overlapping.all(|(_, other)| other == node)
        };
        pool.range().contains(cidr) && (cidr.prefix_len() >= pool.node_prefix() || is_alone())
    }

    /// Length of a Node's prefix, if `cidr` is wider than that.
    fn too_wide(&self, cidr: Cidr) -> Option<u8> {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.range().family() == cidr.family())?;
        Some(pool.node_prefix()).filter(|shortest| cidr.prefix_len() < *shortest)
    }

    /// A Node other than `node` that was seen with an address of `cidr`, and its CIDR, unless that is too wide.
    fn other(&self, cidr: Cidr, node: &NodeView) -> Option<(Cidr, &Arc<str>)> {
        let mut others = self.holders.others(cidr, &node.name);
        others.find(|(other_cidr, _)| self.too_wide(*other_cidr).is_none())
    }

    fn problems(&self, node: &NodeView, holding: &Holding) -> Vec<PodCidrProblem> {
        let mut problems = Vec::new();
        let (name, pools) = (&node.name, &self.pools);
        let (count, expected) = (holding.cidrs.len(), pools.len());
        if expected > 0 && count != expected {
            problems.push(PodCidrProblem::invalid(format!(
                "Node {name} has {count} Pod CIDRs, but --cluster-cidr has {expected}; Kubernetes lets no client change that: \
                 delete the Node, and it gets {expected} when it registers again"
            )));
        }
        for (place, cidr) in holding.cidrs.iter().enumerate() {
            let Some(cidr) = *cidr else {
                let item = Excerpt::of(node.pod_cidrs.get(place).map_or("", |item| item));
                problems.push(PodCidrProblem::invalid(format!(
                    "Pod CIDR {item} of Node {name} is no CIDR; delete the Node, and it registers again"
                )));
                continue;
            };
            // I-8. Begins with upstream's words.
            let range = pools.get(place).map(Pool::range);
            if let Some(range) = range.filter(|range| !range.contains(cidr)) {
                problems.push(PodCidrProblem::invalid(format!(
                    "cidr {cidr} is out the range of cluster cidr {range}: Node {name} keeps it; extend \
                     --cluster-cidr, or delete the Node, and it gets another when it registers again"
                )));
            }
            if let Some(shortest) = self.too_wide(cidr) {
                problems.push(PodCidrProblem::invalid(format!(
                    "Pod CIDR {cidr} of Node {name} is wider than a Node's /{shortest}: it is not reserved where another \
                     Node has a part of it; delete the Node, and it gets another when it registers again"
                )));
            } else if let Some(other) = self.other(cidr, node) {
                problems.push(duplicate(cidr, node, other));
            }
        }
        problems
    }
}

fn duplicate(
    cidr: Cidr,
    node: &NodeView,
    (other_cidr, other): (Cidr, &Arc<str>),
) -> PodCidrProblem {
    let name = &node.name;
    PodCidrProblem::duplicate(format!(
        "Pod CIDR {cidr} of Node {name} overlaps with {other_cidr} of Node {other}; delete one of \
         the two, and it gets another when it registers again"
    ))
}

/// Nodes by name, and by each CIDR.
#[derive(Clone, Debug, Default)]
struct Holders {
    nodes: BTreeMap<Arc<str>, Holding>,
    /// Each CIDR, with its Nodes.
    cidrs: CidrMap<Arc<str>>,
}

/// The CIDRs of one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holding {
    uid: Box<str>,
    /// By their places in `spec.podCIDRs`; none for a text that is no CIDR.
    cidrs: Box<[Option<Cidr>]>,
    /// True if the Node was observed with them. Otherwise they were allocated, and perhaps not written.
    is_observed: bool,
}

impl Holding {
    fn cidrs(&self) -> impl Iterator<Item = Cidr> {
        self.cidrs.iter().copied().flatten()
    }
}

impl Holders {
    fn get(&self, node: &str) -> Option<&Holding> {
        self.nodes.get(node)
    }

    /// `node` has no other CIDRs: the caller removed them.
    fn insert(&mut self, node: &Arc<str>, holding: Holding) {
        for cidr in holding.cidrs() {
            self.cidrs.insert(cidr, Arc::clone(node));
        }
        self.nodes.insert(Arc::clone(node), holding);
    }

    fn remove(&mut self, node: &str) -> Option<Holding> {
        let holding = self.nodes.remove(node)?;
        for cidr in holding.cidrs() {
            self.cidrs.remove(cidr, |holder| **holder == *node);
        }
        Some(holding)
    }

    /// The Nodes other than `node` that were seen with an address of `cidr`, and their CIDRs.
    fn others(&self, cidr: Cidr, node: &str) -> impl Iterator<Item = (Cidr, &Arc<str>)> {
        self.cidrs.overlapping(cidr).filter(move |(_, other)| {
            ***other != *node && self.get(other).is_some_and(|holding| holding.is_observed)
        })
    }
}

#[cfg(test)]
mod tests;

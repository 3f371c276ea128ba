//! Values by CIDR, found by each CIDR that has an address in common with theirs.
//!
//! The allocator of Pod CIDRs and the Nodes of the routes keep their owners here. A look-up visits the CIDRs inside the one
//! that is asked for, and its supernets, never the whole map.

use std::collections::{BTreeMap, btree_map::Entry};

use super::Cidr;

/// Values by CIDR, those of one CIDR in their order. A look-up reads the map once for each bit of the prefix at most.
#[derive(Clone, Debug)]
pub(crate) struct CidrMap<T>(BTreeMap<Cidr, Vec<T>>);

impl<T> Default for CidrMap<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> CidrMap<T> {
    pub(crate) fn insert(&mut self, cidr: Cidr, value: T) {
        // One value for a CIDR is the rule: no spare room for more.
        let values = self.0.entry(cidr);
        let values = values.or_insert_with(|| Vec::with_capacity(1));
        let place = values.partition_point(|other| *other < value);
        values.insert(place, value);
    }

    /// Removes the values of `cidr` for which `is_meant` holds.
    pub(crate) fn remove(&mut self, cidr: Cidr, is_meant: impl Fn(&T) -> bool) {
        if let Entry::Occupied(mut entry) = self.0.entry(cidr) {
            entry.get_mut().retain(|value| !is_meant(value));
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Cidr> {
        self.0.keys().copied()
    }

    /// The values of `cidr` itself.
    pub(crate) fn at(&self, cidr: Cidr) -> impl Iterator<Item = &T> {
        self.0.get(&cidr).into_iter().flatten()
    }

    /// The values of each CIDR inside `cidr`, itself included.
    pub(crate) fn within(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &T)> {
        let within = self.0.range(cidr.span());
        within.flat_map(|(cidr, values)| values.iter().map(|value| (*cidr, value)))
    }

    /// The values of each CIDR around `cidr`, the smallest first.
    pub(crate) fn around(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &T)> {
        let around = cidr.supernets();
        let around = around.filter_map(|range| self.0.get_key_value(&range));
        around.flat_map(|(cidr, values)| values.iter().map(|value| (*cidr, value)))
    }

    /// The values of each CIDR that has an address of `cidr`.
    pub(crate) fn overlapping(&self, cidr: Cidr) -> impl Iterator<Item = (Cidr, &T)> {
        self.within(cidr).chain(self.around(cidr))
    }
}

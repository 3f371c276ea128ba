//! The Node that a route leads to.
//!
//! The target's name, provider ID and next hop are compared in this order, and the first that route and Node both have
//! decides. The others contradict nothing, since a cloud may spell them in its own way. A Node that reports no
//! address of the next hop's family has none to compare.
//!
//! A route remembers the Node that it was made for, or led to when it was last looked at. The route that the provider shows
//! in the answer to a creation, or in the list that follows, is that Node's, whatever target it shows. And a route that
//! keeps its looks while its Node gets another machine leads to the machine before.

use std::{collections::HashSet, net::IpAddr};

use super::{ObservedRoute, observed::ip};
use crate::node::{NodeAddress, NodeView, address::is_same_set};

/// How a route and a Node relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It leads to the Node.
    Right,
    /// It leads to the Node, but was made with other addresses.
    Outdated,
    /// It leads to the machine or the next hop that the Node had before.
    Replaced,
    /// It does not lead to the Node.
    Other,
    /// Not known: the Node is not initialised, so that its machine is not known yet, or the two have nothing in
    /// common to compare.
    Undecided,
}

impl ObservedRoute {
    /// How the route and `node` relate.
    pub(super) fn fit(&self, node: &NodeView) -> Fit {
        let fit = self.fit_by_target(node);
        let made_for = self.made_for.as_deref();
        let Some(before) = made_for.filter(|before| *before.node_name == *node.name) else {
            return fit;
        };
        let is_same_machine = before.provider_id == node.provider_id;
        let has_moved =
            !is_same_machine && !before.provider_id.is_empty() && !node.provider_id.is_empty();
        let had_hop = self.has_hop(&before.node_addresses) == Some(true);
        let has_lost_hop = had_hop && self.has_hop(&node.addresses) == Some(false);
        match fit {
            Fit::Right if !node.is_uninitialized() && (has_moved || has_lost_hop) => Fit::Replaced,
            Fit::Other | Fit::Undecided if is_same_machine && !has_lost_hop => Fit::Right,
            Fit::Outdated
                if is_same_machine && is_same_set(&before.node_addresses, &node.addresses) =>
            {
                Fit::Right
            }
            fit => fit,
        }
    }

    fn fit_by_target(&self, node: &NodeView) -> Fit {
        let raw = self.raw();
        let is_initialized = !node.is_uninitialized();
        let named = Some(&raw.node_name).filter(|name| !name.is_empty());
        let name = named.map(|name| name.eq_ignore_ascii_case(&node.name));
        let has_ids = !raw.provider_id.is_empty() && !node.provider_id.is_empty();
        let id = has_ids.then(|| *raw.provider_id == *node.provider_id);
        match name.or(id).or_else(|| self.has_hop(&node.addresses)) {
            // Until it is initialised its addresses are those of the kubelet.
            Some(false) if is_initialized || name.is_some() || id.is_some() => Fit::Other,
            None | Some(false) => Fit::Undecided,
            Some(true) if is_initialized && self.is_outdated(&node.addresses) => Fit::Outdated,
            Some(true) => Fit::Right,
        }
    }

    /// Returns true if the next hop is one of `addresses`; `None` without a next hop or an address of its family.
    fn has_hop(&self, addresses: &[NodeAddress]) -> Option<bool> {
        let hop = ip(&self.raw().next_hop_ip)?;
        let alike = addresses.iter().filter_map(|one| ip(&one.address));
        let mut alike = alike.filter(|one| one.is_ipv4() == hop.is_ipv4());
        alike.next().map(|first| {
            let mut all = std::iter::once(first).chain(alike);
            all.any(|one: IpAddr| one == hop)
        })
    }

    /// as sets.
    fn is_outdated(&self, now: &[NodeAddress]) -> bool {
        let made_with: HashSet<_> = self.raw().node_addresses.iter().collect();
        let now: HashSet<_> = now.iter().collect();
        self.raw().compares_addresses && !now.is_empty() && made_with != now
    }
}

#[cfg(test)]
mod tests;

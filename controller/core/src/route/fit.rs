//! The Node that a route leads to.
//!
//! The target's name, provider ID and next hop are compared in this order, and the first that route and Node both have
//! decides. The others contradict nothing, since a cloud may spell them in its own way. A Node that reports no
//! address of the next hop's family has none to compare.
//!
//! A route remembers the Node that it was made for. The route that the provider shows in the answer to a creation, or in
//! the list that follows, is that Node's: if it does not look so it is reported, not deleted. And a route that keeps its looks while
//! its Node gets another machine leads to the machine before.

use std::{collections::HashSet, net::IpAddr};

use super::{
    ObservedRoute,
    observed::{MadeFor, ip},
};
use crate::{
    fault::Excerpt,
    node::{NodeAddress, NodeView, address::is_same_set},
};

/// How a route and a Node relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It leads to the Node.
    Right,
    /// It leads to the Node, but was made with other addresses.
    Outdated,
    /// It leads to the machine or the next hop that the Node had before.
    Replaced,
    /// It was made for the Node, but the provider shows it otherwise.
    Disputed,
    /// It does not lead to the Node.
    Other,
    /// Not known: the Node is not initialised, so that its machine is not known yet, or the two have nothing in
    /// common to compare.
    Undecided,
}

impl ObservedRoute {
    /// How the route and `node` relate.
    pub(super) fn fit(&self, node: &NodeView) -> Fit {
        let made_for = self.made_for.as_deref();
        let is_made = made_for.is_some_and(|made| made.is(node));
        if self.raw().is_blackhole && is_made {
            return Fit::Disputed;
        }
        match self.fit_by_target(node) {
            Fit::Undecided if is_made => Fit::Right,
            Fit::Other if is_made => Fit::Disputed,
            Fit::Outdated
                if is_made
                    && made_for.is_some_and(|m| is_same_set(&m.addresses, &node.addresses)) =>
            {
                Fit::Disputed
            }
            Fit::Right if made_for.is_some_and(|made| self.is_replaced(made, node)) => {
                Fit::Replaced
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

    /// Returns true if `node` got another machine, or lost the next hop, since the route led to it as `before`.
    fn is_replaced(&self, before: &MadeFor, node: &NodeView) -> bool {
        let ids = [&before.provider_id, &node.provider_id];
        let has_moved = ids.iter().all(|id| !id.is_empty()) && ids[0] != ids[1];
        let had_hop = self.has_hop(&before.addresses) == Some(true);
        let has_lost_hop = had_hop && self.has_hop(&node.addresses) == Some(false);
        let is_meant = *before.node == *node.name && !node.is_uninitialized();
        is_meant && (has_moved || has_lost_hop)
    }

    /// as sets.
    fn is_outdated(&self, now: &[NodeAddress]) -> bool {
        let made_with: HashSet<_> = self.raw().node_addresses.iter().collect();
        let now: HashSet<_> = now.iter().collect();
        self.raw().compares_addresses && !now.is_empty() && made_with != now
    }

    /// In which way the provider shows the route, which was made for `node`, otherwise.
    pub(super) fn dispute(&self, node: &NodeView) -> Option<String> {
        if self.fit(node) != Fit::Disputed {
            return None;
        }
        let raw = self.raw();
        let otherwise = |field: &str, shown: &str, of_node: &str| {
            format!(
                "{field} {}, not {}",
                Excerpt::of(shown),
                Excerpt::of(of_node)
            )
        };
        let how = if raw.is_blackhole {
            "route blackhole".to_owned()
        } else if !raw.node_name.is_empty() && !raw.node_name.eq_ignore_ascii_case(&node.name) {
            otherwise("route node_name", &raw.node_name, &node.name)
        } else if !raw.provider_id.is_empty() && raw.provider_id != *node.provider_id {
            otherwise("route provider_id", &raw.provider_id, &node.provider_id)
        } else if self.has_hop(&node.addresses) == Some(false) {
            let hop = Excerpt::of(&raw.next_hop_ip);
            format!("route next_hop_ip {hop}, which is no address of the Node")
        } else {
            "route node_addresses that are not the Node's".to_owned()
        };
        let cidr = self.destination();
        Some(format!(
            "the provider has made the route to {cidr}, but shows it with {how}"
        ))
    }
}

#[cfg(test)]
mod tests;

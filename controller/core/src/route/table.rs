//! The routes in the cloud, as far as they are known in one lease term.
//!
//! The loop marks the beginning of each list ([`RouteTable::list_begins`]) and of each call ([`RouteTable::call_begins`]),
//! and their ends; the table knows from that which answer is older than which. A call with an unknown result makes its
//! destination unknown until a list that began later.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{ObservedRoute, RouteNodes, WantedRoute, fit::Fit};
use crate::cidr::Cidr;

/// The last complete list, and each create and delete that was answered since it began.
///
/// A destination has one call in flight at most. Routes of others are in it too, since a Node may
/// be reached by one; a plan leaves them alone.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    routes: BTreeMap<Cidr, Vec<ObservedRoute>>,
    is_listed: bool,
    /// How many calls have ended.
    calls: u64,
    /// Lists that began with fewer calls are outdated.
    outdated: u64,
    /// By destination: a call in flight, or one that a list may not show yet.
    writes: BTreeMap<Cidr, RouteWrite>,
}

#[derive(Clone, Copy, Debug)]
enum RouteWrite {
    InFlight,
    /// Answered, as the so many-th call.
    Answered(u64),
    /// The so many-th call, of which only a list that begins later shows the result.
    Unknown(u64),
}

/// How many calls had ended when a list began.
#[derive(Clone, Copy, Debug)]
pub struct ListStart(u64);

impl RouteTable {
    /// To be called right before a list is asked for.
    pub const fn list_begins(&self) -> ListStart {
        ListStart(self.calls)
    }

    /// Takes a complete list, in which a route that is there twice counts once. A destination with a
    /// call that ended after the list began, or is in flight, stays as it is, since the list may be
    /// from before. Returns the destinations that changed, without those whose last call had an unknown result: their
    /// keys wait for this list, or for the end of their back-off.
    pub fn list_completed(
        &mut self,
        start: ListStart,
        routes: impl IntoIterator<Item = ObservedRoute>,
    ) -> BTreeSet<Cidr> {
        self.is_listed = start.0 >= self.outdated;
        let unknown = self.writes.iter();
        let unknown = unknown.filter(|(_, write)| matches!(write, RouteWrite::Unknown(_)));
        let unknown: BTreeSet<_> = unknown.map(|(destination, _)| *destination).collect();
        self.writes.retain(|_, write| match write {
            RouteWrite::InFlight => true,
            RouteWrite::Answered(call) | RouteWrite::Unknown(call) => *call > start.0,
        });
        let before = std::mem::take(&mut self.routes);
        for route in routes {
            if !self.writes.contains_key(&route.destination()) {
                self.insert(route);
            }
        }
        for (destination, routes) in &mut self.routes {
            let earlier = before.get(destination).map_or(&[][..], Vec::as_slice);
            let is_single = routes.len() == 1;
            for route in routes {
                let is_same = |earlier: &&ObservedRoute| {
                    *earlier == route || (is_single && earlier.is_unseen())
                };
                let same = earlier.iter().find(is_same);
                route.made_for = same.and_then(|same| same.made_for.clone());
            }
        }
        for destination in self.writes.keys() {
            if let Some(routes) = before.get(destination) {
                self.routes.insert(*destination, routes.clone());
            }
        }
        let destinations = before.keys().chain(self.routes.keys());
        let changed = destinations.filter(|at| before.get(at) != self.routes.get(at));
        changed
            .filter(|at| !unknown.contains(at))
            .copied()
            .collect()
    }

    /// The provider may list other routes from now on: nothing is decided before a list that begins later is
    /// complete.
    pub const fn outdate(&mut self) {
        self.calls += 1;
        self.outdated = self.calls;
        self.is_listed = false;
    }

    /// A call about `destination` is sent.
    pub fn call_begins(&mut self, destination: Cidr) {
        self.writes.insert(destination, RouteWrite::InFlight);
    }

    /// The call has made `desired`, which the provider shows as `route`, or not at all.
    pub fn created(&mut self, desired: &WantedRoute, mut route: ObservedRoute) {
        self.call_ended(desired.destination, RouteWrite::Answered);
        route.made_for = Some(Arc::new(desired.clone()));
        if let Some(routes) = self.routes.get_mut(&desired.destination) {
            routes.retain(|other| *other != route);
        }
        self.insert(route);
    }

    /// Remembers to which of `nodes` the routes with this destination lead.
    pub fn keep(&mut self, destination: Cidr, nodes: &RouteNodes) {
        let routes = self.routes.get_mut(&destination).into_iter().flatten();
        for route in routes {
            let made_for = route.made_for.as_ref();
            if made_for.is_some_and(|made_for| !made_for.provider_id.is_empty()) {
                continue;
            }
            let mut nodes = nodes.with(destination);
            if let Some(node) = nodes.find(|node| route.fit(node) == Fit::Right) {
                route.made_for = Some(Arc::new(WantedRoute::of(destination, node)));
            }
        }
    }

    /// The call has deleted `route`.
    pub fn deleted(&mut self, route: &ObservedRoute) {
        let destination = route.destination();
        self.call_ended(destination, RouteWrite::Answered);
        if let Some(routes) = self.routes.get_mut(&destination) {
            routes.retain(|other| other != route);
            if routes.is_empty() {
                self.routes.remove(&destination);
            }
        }
    }

    /// The call has changed nothing for certain.
    pub fn failed(&mut self, destination: Cidr) {
        self.call_ended(destination, RouteWrite::Answered);
    }

    /// The result of the call is not known.
    pub fn result_unknown(&mut self, destination: Cidr) {
        self.call_ended(destination, RouteWrite::Unknown);
    }

    /// Returns true if `destination` needs a complete list before anything is decided about it.
    pub fn needs_list(&self, destination: Cidr) -> bool {
        let write = self.writes.get(&destination);
        !self.is_listed || matches!(write, Some(RouteWrite::Unknown(_)))
    }

    /// Returns true if only a list can show the state of some destination.
    pub fn is_outdated(&self) -> bool {
        let mut writes = self.writes.values();
        !self.is_listed || writes.any(|write| matches!(write, RouteWrite::Unknown(_)))
    }

    /// The routes with this destination.
    pub fn at(&self, destination: Cidr) -> &[ObservedRoute] {
        self.routes.get(&destination).map_or(&[], Vec::as_slice)
    }

    /// All routes.
    pub fn iter(&self) -> impl Iterator<Item = &ObservedRoute> {
        self.routes.values().flatten()
    }

    fn insert(&mut self, route: ObservedRoute) {
        let routes = self.routes.entry(route.destination());
        let routes = routes.or_insert_with(|| Vec::with_capacity(1));
        if !routes.contains(&route) {
            routes.push(route);
        }
    }

    fn call_ended(&mut self, destination: Cidr, write: fn(u64) -> RouteWrite) {
        self.calls += 1;
        self.writes.insert(destination, write(self.calls));
    }
}

#[cfg(test)]
mod tests;

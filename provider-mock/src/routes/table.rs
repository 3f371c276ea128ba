//! Every route that exists.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Route, RouteSpec};
use crate::cidr::Cidr;
use crate::instances::mixed;

/// Why a route was not made, changed or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteRefused {
    /// The table has no room.
    #[error("the route table has {0} routes, as many as it has room for")]
    Full(usize),
    /// The destination has a route to another place.
    #[error("the destination {destination} has the route {name} already")]
    Taken {
        /// The destination.
        destination: Cidr,
        /// The route that has it.
        name: String,
    },
    /// The route is another cluster's, or of no cluster.
    #[error("the route {0} is not of this cluster")]
    Foreign(String),
    /// One of that name exists.
    #[error("there is a route {0} already")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no route {0}")]
    Unknown(String),
}

/// The routes by name and by destination. They are shared, not copied.
///
/// An operator may put several with one destination into it; a provider makes only the first.
#[derive(Debug, Default, Clone)]
pub struct RouteTable {
    by_name: BTreeMap<String, Arc<Route>>,
    by_destination: HashMap<Cidr, BTreeSet<String>>,
}

impl PartialEq for RouteTable {
    fn eq(&self, other: &Self) -> bool {
        self.by_name == other.by_name
    }
}

impl RouteTable {
    /// From a saved state.
    pub fn restore(routes: Vec<Route>) -> Result<Self, RouteRefused> {
        let mut table = Self::default();
        for route in routes {
            table.insert(route)?;
        }
        Ok(table)
    }

    /// Adds a new one.
    pub fn insert(&mut self, route: Route) -> Result<Arc<Route>, RouteRefused> {
        if self.by_name.contains_key(&route.name) {
            return Err(RouteRefused::Exists(route.name));
        }
        let names = self.by_destination.entry(route.destination.network());
        names.or_default().insert(route.name.clone());
        let route = Arc::new(route);
        self.by_name.insert(route.name.clone(), Arc::clone(&route));
        Ok(route)
    }

    /// Puts a changed one in the place of the one with its name and destination.
    pub fn replace(&mut self, route: Route) -> Result<Arc<Route>, RouteRefused> {
        match self.remove(&route.name) {
            Some(_) => self.insert(route),
            None => Err(RouteRefused::Unknown(route.name)),
        }
    }

    /// Removes one.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Route>> {
        let route = self.by_name.remove(name)?;
        let destination = route.destination.network();
        if let Some(names) = self.by_destination.get_mut(&destination) {
            names.remove(name);
            if names.is_empty() {
                self.by_destination.remove(&destination);
            }
        }
        Some(route)
    }

    /// Makes one for a cluster, unless it is there.
    pub(crate) fn create(
        &mut self,
        spec: RouteSpec,
        most: Option<usize>,
        now: Timestamp,
    ) -> Result<Arc<Route>, RouteRefused> {
        let is_wanted = |route: &&Arc<Route>| {
            route.cluster.as_ref() == Some(&spec.cluster)
                && route.target.is(&spec.target)
                && !route.blackhole
        };
        if let Some(route_in_table) = self.to(spec.destination).find(is_wanted) {
            return Ok(Arc::clone(route_in_table));
        }
        if let Some(other) = self.to(spec.destination).next() {
            return Err(RouteRefused::Taken {
                destination: spec.destination,
                name: other.name.clone(),
            });
        }
        if most.is_some_and(|most| self.by_name.len() >= most) {
            return Err(RouteRefused::Full(self.by_name.len()));
        }
        self.insert(Route {
            name: spec.derived_name(),
            cluster: Some(spec.cluster),
            destination: spec.destination,
            target: spec.target,
            blackhole: false,
            created_at: now,
        })
    }

    /// Removes one of a cluster, found by its name or else by its target; none: it is gone. With
    /// `of_any`, of no cluster too.
    pub(crate) fn delete(
        &mut self,
        unwanted: &RouteSpec,
        of_any: bool,
    ) -> Result<Option<Arc<Route>>, RouteRefused> {
        let is_ours = |route: &Route| match &route.cluster {
            Some(cluster) => *cluster == unwanted.cluster,
            None => of_any,
        };
        let is_meant = |route: &&Arc<Route>| {
            if unwanted.name.is_empty() {
                is_ours(route) && unwanted.target.may_be(&route.target)
            } else {
                route.name == unwanted.name
            }
        };
        let Some(route_in_table) = self.to(unwanted.destination).find(is_meant).cloned() else {
            return Ok(None);
        };
        if !is_ours(&route_in_table) {
            return Err(RouteRefused::Foreign(route_in_table.name.clone()));
        }
        Ok(self.remove(&route_in_table.name))
    }

    /// The routes with a destination, in any spelling.
    pub fn to(&self, destination: Cidr) -> impl Iterator<Item = &Arc<Route>> {
        let names = self.by_destination.get(&destination.network());
        let names = names.into_iter().flatten();
        names.filter_map(|name| self.by_name.get(name))
    }

    /// The one with this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Route>> {
        self.by_name.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Route>> {
        self.by_name.values()
    }

    /// At most `size` that come after the name `after`, by name.
    pub fn page(&self, after: Option<&str>, size: usize) -> Vec<Arc<Route>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let routes = self.by_name.range::<str, _>((from, Bound::Unbounded));
        routes
            .take(size)
            .map(|(_, route)| Arc::clone(route))
            .collect()
    }
}

impl RouteSpec {
    fn derived_name(&self) -> String {
        let key = [
            self.cluster.as_str(),
            &self.destination.to_string(),
            &self.target.node,
        ];
        let bytes = key.iter().flat_map(|part| part.bytes().chain([0]));
        format!("r-{:016x}", mixed(bytes))
    }
}

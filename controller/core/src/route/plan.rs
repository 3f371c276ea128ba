//! The decision about one destination CIDR.

use std::sync::Arc;

use super::{
    ObservedRoute, RefusedRoute, RouteRange, WantedRoute,
    facts::{Confirmation, RouteFacts, can_have_route, is_working},
    fit::Fit,
    refusal::refusal,
};
use crate::{cidr::Cidr, node::NodeView};

/// The decision about one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePlan {
    /// The next step.
    pub step: RouteStep,
    /// Nodes that have the destination as their Pod CIDR and get no route: a Warning for each.
    pub refused: Box<[RefusedRoute]>,
}

/// The next step for one destination. After a call or an answer another plan follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteStep {
    /// Nothing is wanted, or nothing can be decided before the Node changes.
    Nothing,
    /// The route is there.
    Keep,
    /// A complete list is needed first.
    List,
    /// The API server is asked first, since a route would be deleted.
    Confirm(Confirmation),
    /// The route is deleted.
    Delete(ObservedRoute),
    /// The route is made: nothing is in its way.
    Create(WantedRoute),
}

/// The next step for `destination`.
pub fn plan(destination: Cidr, facts: &RouteFacts<'_>) -> RoutePlan {
    let mut plan = RoutePlan {
        step: RouteStep::Nothing,
        refused: [].into(),
    };
    if facts.table.needs_list(destination) {
        plan.step = RouteStep::List;
    } else if facts.is_synced {
        let (mut nodes, mut refused) = (Vec::new(), Vec::new());
        for node in facts.nodes.with(destination) {
            match refusal(destination, node, facts) {
                None => nodes.push(node),
                Some(why) => refused.push(RefusedRoute {
                    destination,
                    node: Arc::clone(&node.name),
                    why,
                }),
            }
        }
        plan.step = step(destination, &nodes, facts);
        plan.refused = refused.into();
    }
    plan
}

fn step(destination: Cidr, nodes: &[&Arc<NodeView>], facts: &RouteFacts<'_>) -> RouteStep {
    let routes = facts.table.at(destination);
    let is_lost = |route: &ObservedRoute| {
        facts.keeps_lost && nodes.is_empty() && facts.nodes.found(route).is_none()
    };
    let is_in_the_way = |route: &&ObservedRoute| is_stale(route, nodes, facts) && !is_lost(route);
    if let Some(route) = routes.iter().find(is_in_the_way)
        && is_inside(destination, facts.ranges)
    {
        return delete(route, facts);
    }
    let is_there = |node: &&Arc<NodeView>| {
        let leads_there = |route: &ObservedRoute| is_working(route, node);
        routes.iter().any(leads_there)
    };
    if nodes.iter().any(is_there) {
        return RouteStep::Keep;
    }
    // It is there already for all that a route without a comparable target tells: then the provider says so.
    let node = nodes.iter().find(|node| can_have_route(node, facts));
    node.map_or(RouteStep::Nothing, |node| {
        RouteStep::Create(WantedRoute::of(destination, node))
    })
}

/// a range around a cluster CIDR is not ours.
pub(super) fn is_inside(destination: Cidr, ranges: &[RouteRange]) -> bool {
    ranges.iter().any(|range| range.cidr.contains(destination))
}

/// In which way the provider shows the route that it has made for the Node otherwise, if it does.
pub fn dispute(destination: Cidr, node: &str, facts: &RouteFacts<'_>) -> Option<String> {
    let node = facts.nodes.get(node)?;
    let mut routes = facts.table.at(destination).iter();
    routes.find_map(|route| route.dispute(node))
}

/// returns true if `route` has to be deleted, provided that it is ours: it leads to none of `nodes`, which may have
/// one. A route to a Node of another provider stays.
fn is_stale(route: &ObservedRoute, nodes: &[&Arc<NodeView>], facts: &RouteFacts<'_>) -> bool {
    let may_touch = |node: &NodeView| facts.scope.may_touch(node);
    let is_wanted = |node: &&Arc<NodeView>| match route.fit(node) {
        Fit::Disputed => true,
        _ if route.raw().is_blackhole => false,
        Fit::Right => true,
        Fit::Outdated | Fit::Replaced => !may_touch(node),
        Fit::Other => false,
        Fit::Undecided => facts.nodes.found(route).is_none(),
    };
    !nodes.iter().any(is_wanted)
}

/// Deletes `route` once the API server has been asked about the Node that it leads to.
fn delete(route: &ObservedRoute, facts: &RouteFacts<'_>) -> RouteStep {
    let question = match facts.nodes.target_of(route) {
        Some(node) => Confirmation::Node(node),
        None => Confirmation::AllNodes,
    };
    let is_confirmed = facts.confirmed.contains(&question);
    if is_confirmed || route.raw().is_blackhole {
        return RouteStep::Delete(route.clone());
    }
    RouteStep::Confirm(question)
}

#[cfg(test)]
mod tests;

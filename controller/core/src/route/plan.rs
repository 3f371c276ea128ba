//! The decision about one destination CIDR.
//!
//! The loop calls [`plan`] when a Node changed, a list was completed, or a call about the destination ended, and carries
//! out the one [`RouteStep`]. A deletion is planned twice: the first plan asks for a [`Confirmation`] by the API server,
//! the second one has it among its facts.

use std::sync::Arc;

use super::{
    ObservedRoute, RefusedRoute, RouteNodes, RouteRange, RouteTable, WantedRoute, fit::Fit,
    observed::ip, refusal::refusal,
};
use crate::{
    cidr::Cidr,
    node::{NodeView, ownership::NodeScope},
};

/// The facts beside the destination.
#[derive(Clone, Copy, Debug)]
pub struct RouteFacts<'a> {
    /// The routes in the cloud.
    pub table: &'a RouteTable,
    /// The Nodes.
    pub nodes: &'a RouteNodes,
    /// True if the store of Nodes is complete.
    pub is_synced: bool,
    /// Questions of earlier plans for this key that the API server has answered since, as `nodes` shows.
    pub confirmed: &'a [Confirmation],
    /// Which Nodes are the provider's: no other gets a route.
    pub scope: NodeScope<'a>,
    /// True if Nodes without a provider ID get routes, since the provider gives none.
    pub without_provider_id: bool,
    /// Why the last list of routes has failed, if it has.
    pub list_failure: Option<&'a str>,
    /// True if Nodes may be lost though their machines are there, since etcd has gone back in time: a route to a Node that is
    /// not known stays, unless another Node has its destination.
    pub keeps_lost: bool,
    /// `--cluster-cidr`.
    pub ranges: &'a [RouteRange],
}

/// A question to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The Node of this name.
    Node(Arc<str>),
    /// All Nodes, for a route that names no Node and leads to none of those known.
    AllNodes,
}

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

/// returns true if `route` has to be deleted, provided that it is ours: it leads to none of `nodes`, which may have
/// one. A route to a Node of another provider stays.
fn is_stale(route: &ObservedRoute, nodes: &[&Arc<NodeView>], facts: &RouteFacts<'_>) -> bool {
    let may_touch = |node: &NodeView| facts.scope.may_touch(node);
    let is_wanted = |node: &&Arc<NodeView>| match route.fit(node) {
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

/// Returns true if a route to `node` can be created now. If not, a later write of the Node brings its provider ID or
/// its addresses.
pub(super) fn can_have_route(node: &NodeView, facts: &RouteFacts<'_>) -> bool {
    let is_ready = !node.is_uninitialized() && has_ip(node) && !lacks_id(node, facts);
    is_ready && facts.scope.may_touch(node)
}

/// Returns true if `node` has an address that can be a next hop.
pub(super) fn has_ip(node: &NodeView) -> bool {
    node.addresses.iter().any(|one| ip(&one.address).is_some())
}

/// Returns true if `node` has no provider ID though the provider finds machines by it: the taint of an uninitialized
/// Node was removed by another client.
pub(super) fn lacks_id(node: &NodeView, facts: &RouteFacts<'_>) -> bool {
    node.provider_id.is_empty() && !facts.without_provider_id
}

/// Returns true if `route` reaches the Pods of `node`, even if it has to be created again.
pub(super) fn is_working(route: &ObservedRoute, node: &NodeView) -> bool {
    !route.raw().is_blackhole && matches!(route.fit(node), Fit::Right | Fit::Outdated)
}

#[cfg(test)]
mod tests;

//! The decision about one destination CIDR.

use std::sync::Arc;

use super::{ObservedRoute, RouteNodes, RouteTable, WantedRoute, fit::Fit, observed::ip};
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
    /// Whether the store of Nodes is complete.
    pub is_synced: bool,
    /// Questions of earlier plans for this key that the API server has answered since, the answers
    /// being in `nodes`.
    pub confirmed: &'a [Confirmation],
    /// Which Nodes are the provider's: no other gets a route.
    pub scope: NodeScope<'a>,
    /// Whether Nodes without a provider ID get routes: those of a provider that gives none.
    pub without_provider_id: bool,
    /// `--cluster-cidr`.
    pub cluster_cidrs: &'a [Cidr],
}

/// The decision about one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePlan {
    /// The next step.
    pub step: RouteStep,
    /// Nodes that have the destination as their Pod CIDR, if there are two or more: a Warning. The
    /// route leads to one of them and stays there.
    pub duplicates: Box<[Arc<str>]>,
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
    /// The Node gets no route: a Warning.
    Refuse(RefusedRoute),
}

/// A question to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The Node of this name.
    Node(Arc<str>),
    /// All Nodes, for a route that names no Node and leads to none of those known.
    AllNodes,
}

/// A Pod CIDR outside `--cluster-cidr`: its route would not be found again as one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Pod CIDR {destination} of Node {node} is outside --cluster-cidr, so it gets no route; extend \
     --cluster-cidr, or delete the Node, and it gets another when it registers again"
)]
pub struct RefusedRoute {
    /// The Pod CIDR.
    pub destination: Cidr,
    /// The Node's name.
    pub node: Arc<str>,
}

/// The next step for `destination`.
pub fn plan(destination: Cidr, facts: &RouteFacts<'_>) -> RoutePlan {
    let nodes: Vec<_> = facts.nodes.with(destination).collect();
    let duplicates = match nodes[..] {
        [] | [_] => [].into(),
        _ => nodes.iter().map(|node| Arc::clone(&node.name)).collect(),
    };
    RoutePlan {
        step: step(destination, &nodes, facts),
        duplicates,
    }
}

fn step(destination: Cidr, nodes: &[&Arc<NodeView>], facts: &RouteFacts<'_>) -> RouteStep {
    if facts.table.needs_list(destination) {
        return RouteStep::List;
    }
    let routes = facts.table.at(destination);
    if !facts.is_synced || nodes.iter().any(|node| node.is_paused()) {
        return RouteStep::Nothing;
    }
    let is_ours = is_inside(destination, facts.cluster_cidrs);
    if let Some(route) = routes.iter().find(|route| is_stale(route, nodes, facts))
        && is_ours
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
    let mut nodes = nodes.iter().filter(|node| facts.scope.may_touch(node));
    match nodes.next() {
        Some(node) if !is_ours => RouteStep::Refuse(RefusedRoute {
            destination,
            node: Arc::clone(&node.name),
        }),
        // Its provider ID is to come, or its addresses in the write that follows.
        Some(node) if node.is_uninitialized() || !has_ip(node) || lacks_id(node, facts) => {
            RouteStep::Nothing
        }
        // It is there already for all that a route without a comparable target tells: then the provider says so.
        Some(node) => RouteStep::Create(WantedRoute::of(destination, node)),
        None => RouteStep::Nothing,
    }
}

/// Whether `node` has an address that can be a next hop.
fn has_ip(node: &NodeView) -> bool {
    node.addresses.iter().any(|one| ip(&one.address).is_some())
}

/// Whether `node` has no provider ID though the provider finds machines by it: the taint of an uninitialized
/// Node was removed by another client.
pub(super) fn lacks_id(node: &NodeView, facts: &RouteFacts<'_>) -> bool {
    node.provider_id.is_empty() && !facts.without_provider_id
}

/// a range around a cluster CIDR is not ours.
pub(super) fn is_inside(destination: Cidr, cluster_cidrs: &[Cidr]) -> bool {
    cluster_cidrs
        .iter()
        .any(|range| range.contains(destination))
}

/// In which way the provider shows the route that it has made for the Node otherwise, if it does.
pub fn dispute(destination: Cidr, node: &str, facts: &RouteFacts<'_>) -> Option<String> {
    let node = facts.nodes.get(node)?;
    let mut routes = facts.table.at(destination).iter();
    routes.find_map(|route| route.dispute(node))
}

/// Whether Pods of `node` are reached by `route`, though perhaps it is to be made again.
pub(super) fn is_working(route: &ObservedRoute, node: &NodeView) -> bool {
    !route.raw().is_blackhole && matches!(route.fit(node), Fit::Right | Fit::Outdated)
}

/// whether `route` is to go, if it is ours. One to a Node of another provider is not, and one
/// of two Nodes with one CIDR keeps the route that it has, as long as that works.
fn is_stale(route: &ObservedRoute, nodes: &[&Arc<NodeView>], facts: &RouteFacts<'_>) -> bool {
    let may_touch = |node: &NodeView| facts.scope.may_touch(node);
    let is_wanted = |node: &&Arc<NodeView>| match route.fit(node) {
        Fit::Disputed => true,
        _ if route.raw().is_blackhole => false,
        Fit::Right => true,
        Fit::Outdated => nodes.len() > 1 || !may_touch(node),
        Fit::Replaced => !may_touch(node),
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

//! Inputs of the decision about one destination CIDR.

use std::sync::Arc;

use super::{ObservedRoute, RouteNodes, RouteRange, RouteTable, fit::Fit, observed::ip};
use crate::node::{NodeView, ownership::NodeScope};

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

//! Pod CIDRs that get no route, since they are none that one Node can have, or another Node was first.
//!
//! A kubelet chooses the Pod CIDRs of its Node when it registers. So an address belongs to one Node: of two Nodes whose
//! Pod CIDRs overlap the one with a route keeps it, and else the older one gets it.

use std::sync::Arc;

use jiff::Timestamp;

use super::plan::{RouteFacts, can_have_route, is_working};
use crate::{
    cidr::{Cidr, CidrMap},
    node::NodeView,
};

/// A Pod CIDR without a route, and why: a Warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Pod CIDR {destination} of Node {node} {why}, so it gets no route; {}", .why.remedy(.node))]
pub struct RefusedRoute {
    /// The Pod CIDR.
    pub destination: Cidr,
    /// The Node's name.
    pub node: Arc<str>,
    /// The cause.
    pub why: RouteRefusal,
}

/// Why a Pod CIDR gets no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteRefusal {
    /// The route would not be found again as one of ours.
    #[error("is outside --cluster-cidr")]
    Outside,
    /// No Node's range is so wide.
    #[error("is wider than a Node's /{shortest}")]
    TooWide {
        /// Length of a Node's prefix, or, where it is not known, one more than that of the cluster CIDR.
        shortest: u8,
    },
    /// Another Node was first.
    #[error("overlaps with {other_cidr} of Node {other}, which was first")]
    Overlaps {
        /// Name of the other Node.
        other: Arc<str>,
        /// Its Pod CIDR.
        other_cidr: Cidr,
    },
}

impl RouteRefusal {
    fn remedy(&self, node: &str) -> String {
        let again = "and it gets another when it registers again";
        match self {
            Self::Outside => format!("extend --cluster-cidr, or delete the Node, {again}"),
            Self::TooWide { .. } | Self::Overlaps { .. } => {
                format!("delete Node {node}, {again}")
            }
        }
    }
}

/// Why `node` gets no route for its Pod CIDR `destination`, if it gets none.
///
/// The claims before its own are decided one after the other, each once: who registers Nodes chooses how many overlap.
pub(super) fn refusal(
    destination: Cidr,
    node: &NodeView,
    facts: &RouteFacts<'_>,
) -> Option<RouteRefusal> {
    let own = order(destination, node, facts);
    if let Some(why) = defect(destination, node, facts) {
        let (lacks_route, ..) = own;
        // Upstream has made it, or the mask was another one then.
        return lacks_route.then_some(why);
    }
    // A range that is no Node's harms no other Node.
    let is_before = |&(cidr, other): &(Cidr, &Arc<NodeView>)| {
        order(cidr, other, facts) < own && defect(cidr, other, facts).is_none()
    };
    // Two CIDRs that overlap are one inside the other, so all that matter are inside the widest.
    let around = facts.nodes.around(destination).filter(is_before);
    let widest = around.last().map_or(destination, |(cidr, _)| cidr);
    let mut before: Vec<_> = facts.nodes.within(widest).filter(is_before).collect();
    before.sort_by_cached_key(|&(cidr, other)| order(cidr, other, facts));
    let mut kept = CidrMap::default();
    for (cidr, other) in before {
        let can_keep = is_routed(cidr, other, facts) || can_have_route(other, facts);
        if can_keep && owner(&kept, cidr, other).is_none() {
            kept.insert(cidr, &other.name);
        }
    }
    let first = owner(&kept, destination, node);
    first.map(|(other_cidr, other)| RouteRefusal::Overlaps { other, other_cidr })
}

/// The place of a claim among those that overlap with it: those that have their route come first, and the older ones before
/// the younger ones.
fn order<'a>(
    destination: Cidr,
    node: &'a NodeView,
    facts: &RouteFacts<'_>,
) -> (bool, Timestamp, &'a Arc<str>) {
    let lacks_route = !is_routed(destination, node, facts);
    (lacks_route, node.created, &node.name)
}

/// The Node other than `node` that has an address of `destination` among those `kept`, with its Pod CIDR.
fn owner(
    kept: &CidrMap<&Arc<str>>,
    destination: Cidr,
    node: &NodeView,
) -> Option<(Cidr, Arc<str>)> {
    let mut overlapping = kept.overlapping(destination);
    let (cidr, &other) = overlapping.find(|(_, other)| ***other != node.name)?;
    Some((cidr, Arc::clone(other)))
}

/// Why the range is none that a Node can have.
fn defect(destination: Cidr, node: &NodeView, facts: &RouteFacts<'_>) -> Option<RouteRefusal> {
    let mut ranges = facts.ranges.iter();
    let Some(range) = ranges.find(|range| range.cidr.contains(destination)) else {
        return Some(RouteRefusal::Outside);
    };
    let shortest = match range.node_prefix {
        Some(node_prefix) => node_prefix,
        None if facts.nodes.has_other_than(&node.name) => range.cidr.prefix_len() + 1,
        None => 0,
    };
    (destination.prefix_len() < shortest).then_some(RouteRefusal::TooWide { shortest })
}

fn is_routed(destination: Cidr, node: &NodeView, facts: &RouteFacts<'_>) -> bool {
    let routes = facts.table.at(destination);
    routes.iter().any(|route| is_working(route, node))
}

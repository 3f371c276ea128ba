//! Pod CIDRs that get no route, since they are none that one Node can have, or another Node was first.
//!
//! A kubelet chooses the Pod CIDRs of its Node when it registers. So an address belongs to one Node: of two Nodes whose
//! Pod CIDRs overlap the one with a route keeps it, and else the older one gets it.

use std::sync::Arc;

use super::plan::{RouteFacts, can_have_route, is_working};
use crate::{cidr::Cidr, node::NodeView};

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
pub(super) fn refusal(
    destination: Cidr,
    node: &NodeView,
    facts: &RouteFacts<'_>,
) -> Option<RouteRefusal> {
    let has_route = is_routed(destination, node, facts);
    if let Some(why) = defect(destination, node, facts) {
        // Upstream has made it, or the mask was another one then.
        return (!has_route).then_some(why);
    }
    let mut others = others(facts.nodes.around(destination), node)
        .chain(others(facts.nodes.within(destination), node));
    let first = others.find(|(cidr, other)| {
        let is_first = match (has_route, is_routed(*cidr, other, facts)) {
            (true, false) => false,
            (false, true) => true,
            (_, is_routed_too) => {
                let is_older = (other.created, &other.name) < (node.created, &node.name);
                is_older && (is_routed_too || can_have_route(other, facts))
            }
        };
        // Each is before the last in one order, so that this ends. A range that is no Node's harms no other Node.
        is_first && defect(*cidr, other, facts).is_none() && refusal(*cidr, other, facts).is_none()
    });
    first.map(|(other_cidr, other)| RouteRefusal::Overlaps {
        other: Arc::clone(&other.name),
        other_cidr,
    })
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

fn others<'a>(
    all: impl Iterator<Item = (Cidr, &'a Arc<NodeView>)>,
    node: &NodeView,
) -> impl Iterator<Item = (Cidr, &'a Arc<NodeView>)> {
    all.filter(|(_, other)| other.name != node.name)
}

fn is_routed(destination: Cidr, node: &NodeView, facts: &RouteFacts<'_>) -> bool {
    let routes = facts.table.at(destination);
    routes.iter().any(|route| is_working(route, node))
}

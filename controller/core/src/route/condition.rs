//! The condition `NetworkUnavailable` of a Node: whether Pods of it are without a route.
//!
//! The loop asks [`condition`] after each plan about a destination of the Node. The routes that are there decide, and not
//! the call that was made last.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    nodes::pod_cidrs,
    plan::{RouteFacts, has_ip, is_working, lacks_id},
    refusal::refusal,
};
use crate::{
    cidr::Cidr,
    condition::{self, ConditionChange, Status},
    node::{NETWORK_UNAVAILABLE, NodeView, effects::EffectsWrite},
};

/// The condition to write for `node`, if it is not as it should be. The routes that
/// are there decide. `failed` has the destinations for which no route could be made when that
/// was last tried, and why; while one is neither there nor tried, nothing is written.
pub fn condition(
    now: Timestamp,
    node: &NodeView,
    failed: &BTreeMap<Cidr, String>,
    facts: &RouteFacts<'_>,
) -> Option<EffectsWrite> {
    let (status, reason, message) = match state(node, failed, facts)? {
        NodeRoutes::Complete => (
            Status::False,
            "RouteCreated",
            "RouteController created a route".to_owned(),
        ),
        NodeRoutes::Incomplete(why) => (
            Status::True,
            "NoRouteCreated",
            format!("RouteController failed to create a route{why}"),
        ),
    };
    let (conditions, kind) = (&node.conditions, NETWORK_UNAVAILABLE);
    let change = ConditionChange::set(now, conditions, kind, status, reason, &message)?;
    Some(EffectsWrite::of_conditions(now, vec![change]))
}

/// The state of the routes to one Node.
enum NodeRoutes {
    Complete,
    /// A route is missing, and will not be created soon; the rest of the message.
    Incomplete(String),
}

/// Returns `None` if it is not decided yet, or the Node is not this provider's.
fn state(
    node: &NodeView,
    failed: &BTreeMap<Cidr, String>,
    facts: &RouteFacts<'_>,
) -> Option<NodeRoutes> {
    let is_settled = !node.is_uninitialized() && !node.is_paused() && node.deleted.is_none();
    // Between the write that initialises it and that of its addresses, or before the cloud is asked about it.
    let is_settled = is_settled && !node.awaits_addresses();
    if !is_settled || !facts.scope.may_touch(node) {
        return None;
    }
    let cidrs: Vec<_> = pod_cidrs(node).collect();
    if cidrs.is_empty() {
        //
        let is_target = facts.table.iter().any(|route| is_working(route, node));
        return is_target.then(|| NodeRoutes::Incomplete(String::new()));
    }
    let mut missing = Vec::new();
    for cidr in cidrs {
        if facts.table.needs_list(cidr) && !failed.contains_key(&cidr) {
            // A Node that has the condition may have its routes.
            let is_new = condition::find(&node.conditions, NETWORK_UNAVAILABLE).is_none();
            let why = facts.list_failure.filter(|_| is_new)?;
            let why = format!(": the routes cannot be listed: {why}");
            return Some(NodeRoutes::Incomplete(why));
        }
        let routes = facts.table.at(cidr);
        if !routes.iter().any(|route| is_working(route, node)) {
            missing.push(cidr);
        }
    }
    if missing.is_empty() {
        return Some(NodeRoutes::Complete);
    }
    let why = missing.into_iter().find_map(|cidr| {
        if let Some(why) = refusal(cidr, node, facts) {
            Some(format!(": {cidr} {why}"))
        } else if lacks_id(node, facts) {
            Some(": the Node has no provider ID".to_owned())
        } else if !has_ip(node) {
            Some(": the Node has no IP address".to_owned())
        } else {
            failed.get(&cidr).map(|why| format!(": {why}"))
        }
    });
    why.map(NodeRoutes::Incomplete)
}

#[cfg(test)]
mod tests;

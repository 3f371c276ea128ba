//! The condition `NetworkUnavailable` of a Node.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    nodes::pod_cidrs,
    plan::{RouteFacts, has_ip, is_working, lacks_id},
    refusal::refusal,
};
use crate::{
    cidr::Cidr,
    condition::Status,
    node::{NetworkUnavailable, NodeView},
};

const CREATED: &str = "RouteCreated";
const NOT_CREATED: &str = "NoRouteCreated";

/// A write of [`crate::node::NETWORK_UNAVAILABLE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConditionWrite {
    /// UID of the Node.
    pub uid: Box<str>,
    /// `status`.
    pub status: Status,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: Box<str>,
    /// `lastHeartbeatTime`.
    pub heartbeat: Timestamp,
    /// `lastTransitionTime`: stays as long as the status does.
    pub since: Timestamp,
}

impl NetworkConditionWrite {
    /// The view of whatever `node` is by now once this is written.
    #[must_use]
    pub fn applied_to(&self, node: &NodeView, resource_version: &str) -> NodeView {
        NodeView {
            network_unavailable: Some(Box::new(NetworkUnavailable {
                status: Some(self.status),
                reason: self.reason.into(),
                message: self.message.clone(),
                since: Some(self.since),
            })),
            resource_version: resource_version.into(),
            ..node.clone()
        }
    }
}

/// The condition to write for `node`, if it is not as it should be. The routes that
/// are there decide. `failed` has the destinations for which no route could be made when that
/// was last tried, and why; while one is neither there nor tried, nothing is written.
pub fn condition(
    now: Timestamp,
    node: &NodeView,
    failed: &BTreeMap<Cidr, String>,
    facts: &RouteFacts<'_>,
) -> Option<NetworkConditionWrite> {
    let (status, reason, message) = match state(node, failed, facts)? {
        NodeRoutes::Complete => (
            Status::False,
            CREATED,
            "RouteController created a route".into(),
        ),
        NodeRoutes::Incomplete(why) => {
            let text = "RouteController failed to create a route";
            (Status::True, NOT_CREATED, [text, &why].concat())
        }
    };
    let current = node.network_unavailable.as_deref();
    let same = current.filter(|current| current.status == Some(status));
    // The message of a failure names its cause, which may be another one by now.
    let is_said = |current: &NetworkUnavailable| {
        *current.reason == *reason && (status == Status::False || *current.message == *message)
    };
    if same.is_some_and(is_said) {
        return None;
    }
    Some(NetworkConditionWrite {
        uid: node.uid.clone(),
        status,
        reason,
        message: message.into(),
        heartbeat: now,
        since: same.and_then(|current| current.since).unwrap_or(now),
    })
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
            let is_new = node.network_unavailable.is_none();
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

//! Decisions of core on what the loop knows at one moment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use outrigger_core::{
    cidr::Cidr,
    node::{
        NodeView,
        ownership::{NodeScope, Prefixes},
    },
    route::{
        Confirmation, NetworkConditionWrite, RouteFacts, RoutePlan, WantedRoute, condition,
        dispute, plan,
    },
};
use outrigger_runtime::clock::time_of_day;

use super::{RouteSettings, RouteState};
use crate::context::LoopParts;

/// How long routes to Nodes that are not there stay after a doubt: their kubelets register again, or an operator sees to it.
const KEEPS_LOST: Duration = Duration::from_hours(1);

/// Calls the decisions of core with the routes, Nodes, flags and declarations of this moment. Each is none while there is
/// no provider.
pub(super) struct RouteDecider {
    pub(super) parts: LoopParts,
    pub(super) settings: RouteSettings,
    pub(super) state: Arc<RouteState>,
}

impl RouteDecider {
    /// The next step for `destination`, of whose questions the API server has answered those of `confirmed`.
    pub(super) fn plan(&self, destination: Cidr, confirmed: &[Confirmation]) -> Option<RoutePlan> {
        self.decide(confirmed, |facts, _| plan(destination, facts))
    }

    /// Why the route that was made for `route` does not lead to its Node.
    pub(super) fn dispute(&self, route: &WantedRoute) -> Option<String> {
        let (destination, node) = (route.destination, &route.node_name);
        self.decide(&[], |facts, _| dispute(destination, node, facts))?
    }

    /// The condition `NetworkUnavailable` to write for `node`, if it is to change.
    pub(super) fn condition(&self, node: &NodeView) -> Option<NetworkConditionWrite> {
        self.decide(&[], |facts, failed| {
            condition(time_of_day(), node, failed, facts)
        })?
    }

    /// For how long routes to Nodes that are not there still stay.
    pub(super) fn keeps_lost(&self) -> Option<Duration> {
        let doubt = self.parts.doubts.borrow();
        let left = KEEPS_LOST.checked_sub(doubt.as_ref()?.since.elapsed())?;
        Some(left).filter(|left| !left.is_zero())
    }

    fn decide<T>(
        &self,
        confirmed: &[Confirmation],
        decide: impl FnOnce(&RouteFacts<'_>, &BTreeMap<Cidr, String>) -> T,
    ) -> Option<T> {
        let session = self.parts.provider.session()?;
        let instances = session.instances.as_ref();
        let by_name;
        let prefixes = if let Some(instances) = instances {
            &instances.prefixes
        } else {
            by_name = Prefixes::new(&session.name, [""; 0]).ok()?;
            &by_name
        };
        let findings = self.state.findings();
        let facts = RouteFacts {
            table: &findings.table,
            nodes: &findings.nodes,
            is_synced: self.parts.nodes.is_synced(),
            confirmed,
            scope: NodeScope {
                prefixes,
                selector: self.settings.selector.as_deref(),
                foreign_prefix_seen: false,
            },
            list_failure: findings.list_failure.as_deref(),
            keeps_lost: self.keeps_lost().is_some(),
            without_provider_id: instances.is_some_and(|instances| instances.without_provider_id),
            ranges: &self.settings.ranges,
        };
        Some(decide(&facts, &findings.failed))
    }
}

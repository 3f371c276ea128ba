//! The routes and Nodes that decisions of one lease term rest on, and what was tried in it.
//!
//! The event handlers observe each Node here, lists and calls report their results, and each decision of core is taken
//! under the same lock, with all of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use outrigger_api::v1::ErrorReason;
use outrigger_core::{
    cidr::Cidr,
    node::{
        NodeView,
        effects::EffectsWrite,
        ownership::{NodeScope, Prefixes},
    },
    route::{
        Confirmation, ObservedRoute, RouteFacts, RouteNodes, RoutePlan, RouteTable, WantedRoute,
        condition, plan,
    },
};
use parking_lot::{Mutex, MutexGuard};

use super::{RouteKey, RouteSettings, sync::is_for_owner};
use crate::{
    context::{LoopContext, LoopParts},
    node_effects::PendingNodeEffects,
    queue::{Priority, Queue},
};
use outrigger_provider::Error;
use outrigger_runtime::clock::time_of_day;

/// How long routes to Nodes that are not there stay after a doubt: their kubelets register again, or an operator sees to
/// it.
const KEEPS_LOST: Duration = Duration::from_hours(1);

/// The routes and Nodes that decisions of one lease term rest on, and these decisions.
pub struct RouteState {
    parts: LoopParts,
    pub(super) settings: RouteSettings,
    queue: Queue<RouteKey>,
    findings: Mutex<RouteFindings>,
    pub(super) effects: Arc<PendingNodeEffects>,
}

/// Under one lock, since a decision needs all of it.
#[derive(Debug, Default)]
pub(super) struct RouteFindings {
    pub(super) table: RouteTable,
    pub(super) nodes: RouteNodes,
    /// Destinations for which no route could be made when that was last tried, and why.
    pub(super) failed: BTreeMap<Cidr, String>,
    /// Why the last list has failed, if it has.
    pub(super) list_failure: Option<String>,
    /// Pod CIDRs, by the UID of their Node, with a Warning in this lease term.
    reported: HashSet<(Box<str>, Cidr)>,
}

impl RouteFindings {
    /// A route that failed for the Node as it was may be made for the Node as it is.
    fn observe(&mut self, node: &Arc<NodeView>) -> BTreeSet<Cidr> {
        let destinations = self.nodes.observe(node);
        self.tried_no_more(destinations)
    }

    fn forget(&mut self, name: &str, uid: &str) -> BTreeSet<Cidr> {
        self.reported.retain(|(reported, _)| **reported != *uid);
        let destinations = self.nodes.forget(name, uid);
        self.tried_no_more(destinations)
    }

    fn tried_no_more(&mut self, destinations: BTreeSet<Cidr>) -> BTreeSet<Cidr> {
        for destination in &destinations {
            self.failed.remove(destination);
        }
        destinations
    }

    /// A route to `destination` is there.
    pub(super) fn keep(&mut self, destination: Cidr) {
        self.failed.remove(&destination);
        self.table.keep(destination, &self.nodes);
    }

    /// The route could not be made, or it is not known whether it was.
    pub(super) fn not_created(&mut self, route: &WantedRoute, error: &Error) {
        let destination = route.destination;
        // A route in the way may be one of ours that came after the last list.
        let is_in_the_way = error.reason() == Some(ErrorReason::ConflictingResource);
        if error.leaves_result_unknown() || is_in_the_way {
            self.table.result_unknown(destination);
        } else {
            self.table.failed(destination);
        }
        if is_for_owner(error) {
            self.failed.insert(destination, error.steady());
        }
    }

    /// The route could not be deleted, or it is not known whether it was.
    pub(super) fn not_deleted(&mut self, destination: Cidr, error: &Error) {
        if error.leaves_result_unknown() {
            self.table.result_unknown(destination);
        } else {
            self.table.failed(destination);
        }
    }

    /// Returns true if a Warning about this Pod CIDR is due.
    pub(super) fn is_new(&mut self, node: &NodeView, destination: Cidr) -> bool {
        self.reported.insert((node.uid.clone(), destination))
    }
}

impl RouteState {
    pub(super) fn new(context: &LoopContext<RouteKey>, settings: RouteSettings) -> Self {
        Self {
            parts: context.parts.clone(),
            settings,
            queue: context.queue.clone(),
            findings: Mutex::default(),
            effects: Arc::default(),
        }
    }

    /// The next step for `destination`, of whose questions the API server has answered those of `confirmed`; none while there
    /// is no provider.
    pub(super) fn plan(&self, destination: Cidr, confirmed: &[Confirmation]) -> Option<RoutePlan> {
        self.decide(confirmed, |facts, _| plan(destination, facts))
    }

    /// The condition `NetworkUnavailable` to write for `node`, if it is to change.
    pub(super) fn condition(&self, node: &NodeView) -> Option<EffectsWrite> {
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

    /// Calls a decision of core with the routes, Nodes, flags and declarations of this moment.
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
        let findings = self.findings();
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

    /// All of it. Not to be held over a wait.
    pub(super) fn findings(&self) -> MutexGuard<'_, RouteFindings> {
        self.findings.lock()
    }

    /// Queues the destinations.
    pub(super) fn queue_destinations(&self, destinations: impl IntoIterator<Item = Cidr>) {
        let keys = destinations.into_iter().map(RouteKey::Destination);
        self.queue.add_all(keys, Priority::Bulk);
    }

    /// Queues the conditions of all Nodes, which another client may have changed or removed.
    pub(super) fn queue_all_nodes(&self) {
        let nodes = self.parts.nodes.all().into_iter();
        let keys = nodes.map(|node| RouteKey::Node(Arc::clone(&node.name)));
        self.queue.add_all(keys, Priority::Bulk);
    }

    /// Observes the Node as the store has it now. Returns the destinations to be reconciled.
    pub(super) fn observe(&self, name: &str) -> BTreeSet<Cidr> {
        let mut findings = self.findings();
        match self.parts.nodes.get(name) {
            Some(node) => findings.observe(&node),
            None => BTreeSet::new(),
        }
    }

    /// The Node is gone. Returns the destinations to be reconciled.
    pub(super) fn forget(&self, name: &str, uid: &str) -> BTreeSet<Cidr> {
        self.findings().forget(name, uid)
    }

    /// All Pod CIDRs, and the destinations of all routes.
    pub(super) fn destinations(&self) -> BTreeSet<Cidr> {
        let findings = self.findings();
        let routes = findings.table.iter().map(ObservedRoute::destination);
        findings.nodes.destinations().chain(routes).collect()
    }
}

//! Invariants of the routes in the cloud, read from the provider's journal.
//!
//! - Two changes of routes to one destination never overlap.
//! - A route that leads to the Node with that Pod CIDR is not deleted, unless the drill has changed it.

use std::collections::HashMap;

use ipnet::IpNet;
use outrigger_provider_mock::journal::{RouteChangeKind, RouteEvent};

use super::{
    ledger::{Ledger, Micros},
    pod_cidrs::Owners,
};

/// Every controller knows a Node that has had all that a route needs for so long.
const KNOWN: Micros = 5_000_000;

/// Follows the changes of the route table.
pub(super) struct RouteChanges {
    ledger: Ledger,
    owners: Owners,
    open: HashMap<u64, Change>,
    /// The routes that certainly exist.
    made: HashMap<IpNet, Made>,
    /// Successful changes, by destination: of which kind, of a route to which Node, and when.
    history: HashMap<IpNet, Vec<(RouteChangeKind, String, Micros)>>,
}

struct Change {
    kind: RouteChangeKind,
    destination: IpNet,
    node: String,
}

struct Made {
    node: String,
    at: Micros,
}

impl RouteChanges {
    pub(super) fn new(ledger: &Ledger, owners: Owners) -> Self {
        Self {
            ledger: ledger.clone(),
            owners,
            open: HashMap::new(),
            made: HashMap::new(),
            history: HashMap::new(),
        }
    }

    /// How many there were.
    pub(super) fn summary(&self) -> String {
        let all = self.history.values().flatten();
        let (made, deleted): (Vec<_>, Vec<_>) =
            all.partition(|(kind, ..)| *kind == RouteChangeKind::Create);
        let (made, deleted) = (made.len(), deleted.len());
        format!("{made} routes were made, {deleted} deleted")
    }

    /// The changes in flight may have happened or not.
    pub(super) fn provider_killed(&mut self) {
        for change in self.open.drain().map(|(_, change)| change) {
            self.made.remove(&change.destination);
        }
    }

    /// Fails with the invariant that does not hold.
    pub(super) fn observe(&mut self, at: Micros, event: RouteEvent) -> Result<(), String> {
        match event {
            RouteEvent::RouteChangeBegan {
                change,
                kind,
                destination,
                node,
                ..
            } => {
                let destination = IpNet::from(destination).trunc();
                let mut others = self.open.values();
                if others.any(|other| other.destination == destination) {
                    return Err(format!("two changes of the route to {destination} overlap"));
                }
                let change_of = Change {
                    kind,
                    destination,
                    node,
                };
                self.open.insert(change, change_of);
                match kind {
                    RouteChangeKind::Create => Ok(()),
                    RouteChangeKind::Delete => self.may_delete(at, &self.open[&change]),
                }
            }
            RouteEvent::RouteChangeEnded { change, error } => {
                let Some(ended) = self.open.remove(&change).filter(|_| error.is_none()) else {
                    return Ok(());
                };
                let Change {
                    kind,
                    destination,
                    node,
                } = ended;
                let history = self.history.entry(destination).or_default();
                history.push((kind, node.clone(), at));
                match kind {
                    RouteChangeKind::Create => {
                        self.made.insert(destination, Made { node, at });
                    }
                    RouteChangeKind::Delete => {
                        self.made.remove(&destination);
                    }
                }
                Ok(())
            }
        }
    }

    fn may_delete(&self, at: Micros, change: &Change) -> Result<(), String> {
        let destination = change.destination;
        let (Some(owner), Some(made)) = (self.owners.of(destination), self.made.get(&destination))
        else {
            return Ok(());
        };
        // A list may spell it otherwise.
        let is_meant = change.node.is_empty() || change.node.eq_ignore_ascii_case(&made.node);
        let leads_there = made.node == owner.node && is_meant;
        // A route that was made before may have the wrong next hop.
        let is_known = |since| since + KNOWN < at && since < made.at;
        let is_changed = self.ledger.route_changed_at(destination);
        if !leads_there
            || !owner.complete_since.is_some_and(is_known)
            || self.ledger.is_deleted_node(&owner.uid)
            || is_changed.is_some_and(|changed| changed > made.at)
        {
            return Ok(());
        }
        Err(format!(
            "the route to {destination} is deleted, at {at} of {:?}, though {} ({}) has that Pod CIDR and all that a \
             route needs since {:?}; changed by the drill {is_changed:?}, changed by controllers {:?}",
            change.node,
            owner.node,
            owner.uid,
            owner.complete_since,
            self.history.get(&destination)
        ))
    }
}

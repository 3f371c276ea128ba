//! The decisions of the node-route loop: which route leads to the Pods of which Node.
//!
//! ```text
//!  provider ─► RawRoute::check ─► RouteTable ─┐
//!                 create, delete ─► │         ├─► plan(destination) ─► Create, Delete, Confirm, List
//!  Nodes of the store ──────────► RouteNodes ─┤
//!                                             └─► condition(node) ─► NetworkUnavailable
//! ```
//!
//! The key is one destination CIDR. A call about it is followed by another plan, so that what is in the way is deleted
//! before a route is made (Q-11), and nothing waits for the whole table. The loop keeps one [`RouteTable`] and one
//! [`RouteNodes`] for each lease term, and reports the beginning and the end of each list and call to the table.
//!
//! If the Pod CIDRs of two Nodes have an address in common, only one of the Nodes gets a route (`refusal`).
//!
//! A route is deleted only if all of this holds:
//! - its destination is inside `--cluster-cidr`;
//! - it was in a complete list, or was made since then, and no write with an unknown result came after;
//! - the store of Nodes is complete;
//! - it leads nowhere, or the API server itself has confirmed, after the plan asked for it, that the Node it leads to is
//!   gone, does not have the CIDR, is another machine by now, or has an address in common with an older Node that has a
//!   route.
//!
//! ```
//! use outrigger_core::{
//!     cidr::cidr_list,
//!     ipam::MaskSizes,
//!     node::{NodeView, ownership::{NodeScope, Prefixes}},
//!     route::{RouteFacts, RouteNodes, RouteStep, RouteTable, plan, route_ranges},
//! };
//! use std::sync::Arc;
//!
//! let node: NodeView = serde_json::from_value(serde_json::json!({
//!     "metadata": {"name": "node-1", "uid": "uid-1"},
//!     "spec": {"providerID": "example://m-1", "podCIDRs": ["10.244.1.0/24"]},
//!     "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.5"}]},
//! }))?;
//! let (mut nodes, mut table) = (RouteNodes::default(), RouteTable::default());
//! let destinations = nodes.observe(&Arc::new(node));
//! let destination = *destinations.first().ok_or("the Node has a Pod CIDR")?;
//!
//! let prefixes = Prefixes::new("example", None::<&str>)?;
//! let ranges = route_ranges(&cidr_list("10.244.0.0/16")?, None, MaskSizes::default());
//! let next = |table: &RouteTable| {
//!     let facts = RouteFacts {
//!         table,
//!         nodes: &nodes,
//!         is_synced: true,
//!         confirmed: &[],
//!         scope: NodeScope { prefixes: &prefixes, selector: None, foreign_prefix_seen: false },
//!         without_provider_id: false,
//!         list_failure: None,
//!         keeps_lost: false,
//!         ranges: &ranges,
//!     };
//!     plan(destination, &facts).step
//! };
//!
//! assert_eq!(next(&table), RouteStep::List);
//! let start = table.list_begins();
//! table.list_completed(start, []);
//! let RouteStep::Create(wanted) = next(&table) else {
//!     panic!("the list has no route to the Node")
//! };
//! table.call_begins(destination);
//! table.created(&wanted, wanted.as_made());
//! assert_eq!(next(&table), RouteStep::Keep);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod condition;
mod fit;
mod nodes;
mod observed;
mod plan;
mod refusal;
mod settings;
mod table;

pub use condition::condition;
pub use nodes::RouteNodes;
pub use observed::{ObservedRoute, RawRoute, WantedRoute};
pub use plan::{Confirmation, RouteFacts, RoutePlan, RouteStep, plan};
pub use refusal::{RefusedRoute, RouteRefusal};
pub use settings::{RouteRange, WITHOUT_CLUSTER_CIDR, route_ranges};
pub use table::{ListStart, RouteTable};

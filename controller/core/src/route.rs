//! The decisions of the node-route loop: which route leads to the Pods of which Node.
//!
//! ```text
//!  provider ─► RawRoute::check ─► RouteTable ─┐
//!                 create, delete ─► │         ├─► plan(destination) ─► Create, Delete, Confirm, List
//!  Nodes of the store ──────────► RouteNodes ─┤
//!                                             └─► condition(node) ─► NetworkUnavailable
//! ```
//!
//! The key is one destination CIDR. A call about it is followed by another plan, so that what is in
//! the way is deleted before a route is made (Q-11), and nothing waits for the whole table.
//!
//! If the Pod CIDRs of two Nodes have an address in common, only one of the Nodes gets a route (`refusal`).
//!
//! A route is deleted only if all of this holds:
//! - its destination is inside `--cluster-cidr`;
//! - it was in a complete list, or was made since then, and no write with an unknown result came after;
//! - the store of Nodes is complete;
//! - it leads nowhere, or the API server itself has confirmed, after the plan asked for it, that
//!   the Node it leads to is gone, does not have the CIDR, is another machine by now, or has an address in common with an
//!   older Node that has a route.

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

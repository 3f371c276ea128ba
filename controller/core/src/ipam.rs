//! The node-ipam loop's decisions: which Pod CIDRs a Node gets.
//!
//! ```text
//!  flags ─► IpamOptions::check ─► Pools ──┐
//!                                        ▼
//!  Node changed ─► plan ────────────► Allocator ─► Write(CIDRs), Wait, problems
//!                   ▲                    ▲
//!  Instance ────────┘                    │
//!  Node deleted ─► forget ───────────────┘
//! ```
//!
//! No two Nodes get one CIDR, because all of this holds:
//! - one replica allocates at a time, and an [`Allocator`] lives for one lease term. It has observed
//!   all Nodes of a list that began after the lease was acquired and the writes of the term before
//!   had reached their deadline;
//! - CIDRs that were allocated stay with their Node, whatever becomes of the write, until the Node is
//!   observed with Pod CIDRs or is gone: a write with an unknown result may still arrive;
//! - the write presumes the Node's UID, and that it has no Pod CIDRs, which never change once set.
//!
//! CIDRs that another writer gave to two Nodes are reported, given to no third one, and free once
//! neither has them. A CIDR wider than a Node's is reported too, and no part of it is given away, except what other Nodes
//! have: a kubelet may register with any CIDR, but can neither take those of other Nodes nor all that are free.

mod allocator;
mod holders;
mod plan;
pub mod pool;
mod problem;
mod settings;

pub use allocator::{Allocator, Exhausted};
pub use plan::{PodCidrPlan, PodCidrStep, needs_provider, plan};
pub use problem::PodCidrProblem;
pub use settings::{IpamOptions, MaskSizes};

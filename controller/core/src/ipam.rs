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
//! The loop copies the allocator of the flags for each lease term, shows it every Node of a complete list
//! ([`Allocator::observe_listed`]), then calls [`plan()`] with each Node of the store and writes what [`PodCidrStep::Write`]
//! names. With `CloudAllocator` the provider chooses: [`needs_provider`] says whether it is asked.
//!
//! No two Nodes get one CIDR, because all of this holds:
//! - one replica allocates at a time, and an [`Allocator`] lives for one lease term. It has observed all Nodes of a list
//!   that began after the lease was acquired and the writes of the term before had reached their deadline;
//! - CIDRs that were allocated stay with their Node, whatever becomes of the write, until the Node is observed with Pod
//!   CIDRs or is gone: a write with an unknown result may still arrive;
//! - the write presumes the Node's UID, and that it has no Pod CIDRs, which never change once set.
//!
//! CIDRs that another writer gave to two Nodes are reported, given to no third one, and free once neither has them. A CIDR
//! wider than a Node's is reported too, and no part of it is given away, except what other Nodes have: a kubelet may
//! register with any CIDR, but can neither take those of other Nodes nor all that are free.
//!
//! ```
//! use outrigger_core::{
//!     cidr::cidr_list,
//!     ipam::{IpamOptions, MaskSizes, PodCidrStep, plan},
//!     node::NodeView,
//! };
//!
//! let cluster_cidrs = cidr_list("10.244.0.0/16")?;
//! let options = IpamOptions {
//!     allocator_type: "RangeAllocator",
//!     cluster_cidrs: &cluster_cidrs,
//!     service_cidrs: &[],
//!     mask_sizes: MaskSizes::default(),
//! };
//! let mut allocator = options.check()?;
//!
//! let node: NodeView = serde_json::from_str(r#"{"metadata": {"name": "node-1", "uid": "uid-1"}}"#)?;
//! allocator.observe_listed(&node);
//! let planned = plan(&node, None::<&[&str]>, &mut allocator);
//! assert_eq!(planned.step, PodCidrStep::Write(["10.244.0.0/24".into()].into()));
//! // Reserved until the Node is observed with it, or is gone.
//! assert_eq!(plan(&node, None::<&[&str]>, &mut allocator), planned);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::error_class::ErrorClass;

mod allocator;
mod plan;
pub mod pool;
mod settings;

pub use allocator::{Allocator, Exhausted};
pub use plan::{PodCidrPlan, PodCidrStep, needs_provider, plan};
pub use settings::{IpamOptions, MaskSizes};

/// A Warning about a Node's Pod CIDRs, which are neither repaired nor a reason to end (Q-17).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PodCidrProblem {
    /// Reason of the event.
    pub reason: &'static str,
    text: String,
}

impl PodCidrProblem {
    /// Two Nodes have the same addresses.
    const DUPLICATE: &'static str = "DuplicatePodCIDR";

    const fn duplicate(text: String) -> Self {
        let reason = Self::DUPLICATE;
        Self { reason, text }
    }

    /// CIDRs that no allocator would give.
    const fn invalid(text: String) -> Self {
        let reason = "InvalidPodCIDR";
        Self { reason, text }
    }

    /// Decides the requeue of a Node that gets no Pod CIDR for it.
    pub fn class(&self) -> ErrorClass {
        match self.reason {
            // The other Node may be on its way out.
            Self::DUPLICATE => ErrorClass::NotReady,
            _ => ErrorClass::Malformed,
        }
    }
}

//! Pod CIDRs that are reported, and neither repaired nor a reason to end.

use std::sync::Arc;

use crate::{cidr::Cidr, error_class::ErrorClass, fault::Excerpt};

/// A Warning about a Node's Pod CIDRs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodCidrProblem {
    /// No CIDR at all.
    #[error("Pod CIDR {item} of Node {node} is no CIDR; delete the Node, and it registers again")]
    Malformed {
        /// The Node's name.
        node: Arc<str>,
        /// The text in its spec.
        item: Excerpt,
    },
    /// More of them than cluster CIDRs, or fewer.
    #[error(
        "Node {node} has {count} Pod CIDRs, but --cluster-cidr has {pools}; Kubernetes lets no client change that: delete the \
         Node, and it gets {pools} when it registers again"
    )]
    Number {
        /// The Node's name.
        node: Arc<str>,
        /// How many it has.
        count: usize,
        /// How many cluster CIDRs there are.
        pools: usize,
    },
    /// Not from the cluster CIDR of its place (I-8). Begins with upstream's words.
    #[error(
        "cidr {cidr} is out the range of cluster cidr {range}: Node {node} keeps it; extend \
         --cluster-cidr, or delete the Node, and it gets another when it registers again"
    )]
    OutOfRange {
        /// The Node's name.
        node: Arc<str>,
        /// Its CIDR.
        cidr: Cidr,
        /// The cluster CIDR.
        range: Cidr,
    },
    /// Wider than the range of a Node.
    #[error(
        "Pod CIDR {cidr} of Node {node} is wider than a Node's /{shortest}: it is not reserved where another Node has a \
         part of it; delete the Node, and it gets another when it registers again"
    )]
    TooWide {
        /// The Node's name.
        node: Arc<str>,
        /// Its CIDR.
        cidr: Cidr,
        /// Length of a Node's prefix.
        shortest: u8,
    },
    /// Two Nodes have the same addresses for their Pods.
    #[error(
        "Pod CIDR {cidr} of Node {node} overlaps with {other_cidr} of Node {other}; delete one of \
         the two, and it gets another when it registers again"
    )]
    Duplicate {
        /// The Node's name.
        node: Arc<str>,
        /// Its CIDR.
        cidr: Cidr,
        /// Name of the other Node.
        other: Arc<str>,
        /// The CIDR of that one.
        other_cidr: Cidr,
    },
    /// The provider's CIDRs for the Node cannot be written.
    #[error("the provider's pod_cidrs for Node {node}: {defect}")]
    Provider {
        /// The Node's name.
        node: Arc<str>,
        /// The defect.
        defect: String,
    },
}

impl PodCidrProblem {
    /// Decides the requeue of the Node.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Malformed { .. }
            | Self::Number { .. }
            | Self::OutOfRange { .. }
            | Self::TooWide { .. } => ErrorClass::Invalid,
            // The other Node may be on its way out.
            Self::Duplicate { .. } => ErrorClass::NotReady,
            Self::Provider { .. } => ErrorClass::Malformed,
        }
    }
}

//! The machine behind a node, from a checked answer.

use crate::{
    node::{NodeAddress, NodeView},
    string_map::StringMap,
};

/// A machine in the cloud. Only checked answers become one (see [`crate::node::answer`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Becomes `spec.providerID`; empty only where the cloud has no such ids.
    pub provider_id: Box<str>,
    /// Name that its kubelet registers with; empty if not known.
    pub node_name: Box<str>,
    /// A legal label value, or empty.
    pub instance_type: Box<str>,
    /// In the provider's order.
    pub addresses: Box<[NodeAddress]>,
    /// A legal label value, or empty.
    pub zone: Box<str>,
    /// A legal label value, or empty.
    pub region: Box<str>,
    /// Labels to add to the node.
    pub additional_labels: StringMap,
    /// Whether it runs.
    pub power_state: PowerState,
    /// Pod CIDRs that the cloud allocated, as the provider spells them: the node-ipam loop checks them.
    pub pod_cidrs: Box<[Box<str>]>,
}

impl Instance {
    /// Whether it is certainly not the machine of `node`: both have provider ids, and these differ.
    pub fn is_other_than(&self, node: &NodeView) -> bool {
        let (id, of_node) = (&self.provider_id, &node.provider_id);
        !id.is_empty() && !of_node.is_empty() && id != of_node
    }
}

/// Whether an instance runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerState {
    /// Not known or not asked: changes nothing.
    #[default]
    Unknown,
    /// Being made or started.
    Pending,
    /// Running.
    Running,
    /// Stopped, can be started again.
    Shutdown,
    /// Being deleted.
    Terminating,
}

/// The provider's answer about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The instance exists, running or not.
    Found(Box<Instance>),
    /// The provider looked and found none.
    Absent {
        /// Fresh and certain; anything less never leads to a deletion.
        confirmed: bool,
    },
    /// Another provider, or none, owns the node.
    NotManaged {
        /// For logs.
        reason: Box<str>,
    },
}

//! The cloud-node loop's decision about a node that is initialised: what keeps it in sync with its
//! machine.

use crate::node::{
    NodeView,
    address::{self, DesiredAddresses},
    change::NodeChange,
    initialize::{NodeWarning, Policy},
    instance::Instance,
    labels,
};

/// The writes for one node, in two patches that do not depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshPlan {
    /// Labels, all of them in one change.
    pub change: Option<NodeChange>,
    /// `status.addresses`.
    pub addresses: DesiredAddresses,
    /// Why values of the provider are not written, to be logged.
    pub warnings: Vec<NodeWarning>,
}

impl RefreshPlan {
    const NOTHING: Self = Self {
        change: None,
        addresses: DesiredAddresses::Untouched,
        warnings: Vec::new(),
    };

    /// Returns true if nothing has to be written.
    pub const fn is_empty(&self) -> bool {
        self.change.is_none() && !matches!(self.addresses, DesiredAddresses::Changed(_))
    }
}

/// The writes that keep `node` in sync with `instance`, its machine: addresses (N-41 to N-45) and,
/// in one change, the labels of the old generation (N-35) and those that the provider manages.
///
/// Provider id, taints and all labels that the provider does not manage, zone and instance type
/// among them, stay as initialisation left them, as upstream. A node that is not initialised is
/// left to [`crate::node::initialize`] (N-40).
///
/// The caller has made sure that the node may be written to ([`crate::node::ownership::NodeScope`],
/// [`NodeView::is_paused`]), and that no other node claims its provider id ([`crate::node::claims`]).
pub fn plan(node: &NodeView, instance: &Instance, policy: &Policy) -> RefreshPlan {
    if node.is_uninitialized() {
        return RefreshPlan::NOTHING;
    }
    let (instance_id, node_id) = (&instance.provider_id, &node.provider_id);
    if instance.is_other_than(node) {
        // A machine that was made again under the old name has a new id, and a node's id can never change (N-13):
        // this node has to go first.
        return RefreshPlan {
            warnings: vec![NodeWarning::provider_id(format!(
                "the provider answers with instance {instance_id:?} for the node of instance {node_id:?}: \
                 nothing is taken from it"
            ))],
            ..RefreshPlan::NOTHING
        };
    }
    let faulty = instance.faulty_addresses.iter();
    let mut warnings: Vec<_> = faulty.map(|why| NodeWarning::address(why)).collect();
    if node_id.is_empty() && !instance_id.is_empty() {
        warnings.push(NodeWarning::not_initialized());
    }
    if instance.is_spelled_otherwise(node) {
        warnings.push(NodeWarning::provider_id(format!(
            "the provider calls the instance {instance_id:?} and the node has {node_id:?}: taken for two \
             spellings of one provider ID; the node keeps its own"
        )));
    }
    let addresses = match address::desired(node, &instance.addresses) {
        Ok(addresses) => addresses,
        Err(error) => {
            let text = format!("leaving the addresses as they are: {error}");
            warnings.push(NodeWarning::without_event(text));
            DesiredAddresses::Untouched
        }
    };
    let managed = &policy.managed_label_keys;
    let labels = labels::keep_in_sync(&node.labels, instance, managed);
    RefreshPlan {
        change: NodeChange::of(node, Vec::new(), None, labels),
        addresses,
        warnings,
    }
}

#[cfg(test)]
mod tests;

//! The machine behind a Node, and the provider's answer about it.
//!
//! A [`Lookup`] comes from the provider client, which has checked it ([`crate::node::answer`]). [`Lookup::Absent`] means
//! that the provider has looked and found no instance; a failed lookup has no value here at all, so that no error can be
//! read as absence. [`Instance::is_other_than`] and [`is_same_question`] keep an answer from being used for another machine
//! or another question.

use crate::{
    node::{NodeAddress, NodeView, maintenance::PlannedMaintenance},
    string_map::StringMap,
    text,
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
    /// Why others of its addresses are left out: each is none that a Node may have.
    pub faulty_addresses: Box<[Box<str>]>,
    /// A legal label value, or empty.
    pub zone: Box<str>,
    /// A legal label value, or empty.
    pub region: Box<str>,
    /// Labels to add to the node.
    pub additional_labels: StringMap,
    /// The power state: running, stopped, or on its way.
    pub power_state: PowerState,
    /// Pod CIDRs that the cloud allocated, as the provider spells them: the node-ipam loop checks them.
    pub pod_cidrs: Box<[Box<str>]>,
    /// Maintenance that the cloud has announced.
    pub planned_maintenance: Option<PlannedMaintenance>,
}

impl Instance {
    /// Returns true if it is certainly not the machine of `node`: both have provider IDs, and these name two machines. A
    /// provider looks up by provider ID. So if it finds a machine whose ID ends in the same name, it only spells the ID
    /// otherwise, for example since a region or a zone became part of all IDs.
    pub fn is_other_than(&self, node: &NodeView) -> bool {
        let (id, of_node) = (&*self.provider_id, &*node.provider_id);
        !id.is_empty()
            && !of_node.is_empty()
            && !last_part(id).eq_ignore_ascii_case(last_part(of_node))
    }

    /// Returns true if it is the machine of `node` by another spelling of its provider ID.
    pub fn is_spelled_otherwise(&self, node: &NodeView) -> bool {
        let (id, of_node) = (&*self.provider_id, &*node.provider_id);
        !id.is_empty() && !of_node.is_empty() && id != of_node && !self.is_other_than(node)
    }
}

/// The part of a provider ID that names the machine.
fn last_part(id: &str) -> &str {
    id.trim_end_matches('/').rsplit('/').next().unwrap_or(id)
}

/// The power state of an instance.
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

impl PowerState {
    /// Returns true if the machine runs, or is about to.
    pub const fn runs(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
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

impl Lookup {
    /// Returns true if the instance of `node` is stopped.
    pub fn is_stopped(&self, node: &NodeView) -> bool {
        matches!(self, Self::Found(instance)
            if instance.power_state == PowerState::Shutdown && !instance.is_other_than(node))
    }
}

/// The answer that the instance of `node` is absent, with the question that it was given to, for people.
pub fn no_instance(node: &NodeView) -> String {
    match &*node.provider_id {
        "" => format!(
            "no instance named {:?} (compare the Node's name with the cloud's)",
            node.name
        ),
        id => format!("no instance with the provider ID {:?}", text::message(id)),
    }
}

/// Returns true if a lookup of `node` would be the same question as that of `node_at_lookup`. Providers look up
/// by provider ID, and without one by name, system UUID or labels.
pub fn is_same_question(node: &NodeView, node_at_lookup: &NodeView) -> bool {
    node.uid == node_at_lookup.uid
        && node.provider_id == node_at_lookup.provider_id
        && (!node.provider_id.is_empty()
            || (node.labels == node_at_lookup.labels
                && node.system_uuid == node_at_lookup.system_uuid))
}

#[cfg(test)]
mod tests {
    use super::Instance;
    use crate::{fixture::registered, node::NodeView};

    /// A node and a machine with these provider IDs.
    fn pair(of_node: &str, id: &str) -> (NodeView, Instance) {
        let node = NodeView {
            provider_id: of_node.into(),
            ..registered("n1")
        };
        let instance = Instance {
            provider_id: id.into(),
            ..Instance::default()
        };
        (node, instance)
    }

    #[test]
    fn another_spelling_of_a_provider_id_is_the_same_machine() {
        for (of_node, id) in [
            // A kubelet's own --provider-id, and a cloud that names the zone.
            ("lab://f-1", "lab://zone-a/f-1"),
            // A region became part of all IDs.
            ("openstack:///6d2", "openstack://region-1/6d2"),
            (
                "azure:///groups/RG/machines/VM1",
                "azure:///groups/rg/machines/vm1",
            ),
        ] {
            let (node, instance) = pair(of_node, id);
            assert!(!instance.is_other_than(&node), "{of_node} {id}");
            assert!(instance.is_spelled_otherwise(&node), "{of_node} {id}");
        }
        for (of_node, id, is_other) in [
            ("lab://f-1", "lab://f-1", false),
            ("", "lab://f-1", false),
            ("lab://f-1", "", false),
            ("lab://f-1", "lab://f-2", true),
            ("lab://zone-a/f-1", "lab://zone-a/f-11", true),
        ] {
            let (node, instance) = pair(of_node, id);
            assert_eq!(instance.is_other_than(&node), is_other, "{of_node} {id}");
            assert!(!instance.is_spelled_otherwise(&node), "{of_node} {id}");
        }
    }
}

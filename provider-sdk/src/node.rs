//! Nodes as calls carry them.

use std::collections::HashMap;
use std::time::SystemTime;

use outrigger_api::v1;

use crate::Address;
use crate::setters::setters;

/// A Node of the cluster, as far as the contract carries it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// `metadata.name`, the key of the Node. Never empty.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.providerID`; empty until the Node is initialised.
    pub provider_id: String,
    /// `metadata.labels`, all of them.
    pub labels: HashMap<String, String>,
    /// `metadata.annotations` under
    /// [`ProviderInfo::node_annotation_prefixes`](crate::ProviderInfo::node_annotation_prefixes).
    pub annotations: HashMap<String, String>,
    /// `status.addresses` in their order.
    pub addresses: Vec<Address>,
    /// `spec.podCIDRs`: none, one, or one of each IP family.
    pub pod_cidrs: Vec<String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// Status of the condition Ready; `None`: it is Unknown, or there is none.
    pub ready: Option<bool>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `metadata.creationTimestamp`.
    pub creation_time: Option<SystemTime>,
    /// `metadata.deletionTimestamp`; `None` on a Node that is not being deleted.
    pub deletion_time: Option<SystemTime>,
    /// `status.nodeInfo.systemUUID` as the kubelet reports it (SMBIOS), for clouds without a name for their
    /// machines.
    pub system_uuid: String,
}

/// A taint of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taint {
    /// For example `node.kubernetes.io/not-ready`.
    pub key: String,
    /// May be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl Node {
    /// A Node of this name, for tests of a vendor's handlers.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Moves the message's fields.
    pub(crate) fn from_wire(wire: v1::Node) -> Self {
        let time =
            |time: Option<prost_types::Timestamp>| time.and_then(|time| time.try_into().ok());
        Self {
            name: wire.name,
            uid: wire.uid,
            provider_id: wire.provider_id,
            labels: wire.labels,
            annotations: wire.annotations,
            addresses: wire.addresses.into_iter().map(Address::from_wire).collect(),
            pod_cidrs: wire.pod_cidrs,
            taints: wire.taints.into_iter().map(Taint::from_wire).collect(),
            ready: match wire.ready.as_str() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            },
            unschedulable: wire.unschedulable,
            creation_time: time(wire.creation_time),
            deletion_time: time(wire.deletion_time),
            system_uuid: wire.system_uuid,
        }
    }
}

setters! { Node {
    with_uid => uid: String,
    with_provider_id => provider_id: String,
    with_labels => labels: HashMap<String, String>,
    with_annotations => annotations: HashMap<String, String>,
    with_addresses => addresses: Vec<Address>,
    with_pod_cidrs => pod_cidrs: Vec<String>,
    with_taints => taints: Vec<Taint>,
    with_ready => ready: Option<bool>,
    with_creation_time => creation_time: Option<SystemTime>,
    with_deletion_time => deletion_time: Option<SystemTime>,
    with_system_uuid => system_uuid: String,
} }

setters! { plain Node {
    with_unschedulable => unschedulable: bool,
} }

impl Taint {
    /// A taint, for tests of a vendor's handlers.
    pub fn new(
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        }
    }

    fn from_wire(wire: v1::Taint) -> Self {
        let v1::Taint { key, value, effect } = wire;
        Self { key, value, effect }
    }
}

#[cfg(test)]
mod tests;

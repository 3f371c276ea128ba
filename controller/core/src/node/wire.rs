//! The parts of the API's JSON that a [`NodeView`] is made of; everything else is skipped while it is read.

use std::sync::Arc;

use serde::{Deserialize, de::IgnoredAny};

use super::{
    ANNOTATION_OF_KUBECTL, NETWORK_UNAVAILABLE, NodeAddress, NodeView, Ready, Taint,
    maintenance::{MAINTENANCE_IN_PROGRESS, MAINTENANCE_PLANNED},
};
use crate::{
    condition::{self, Condition},
    metadata::ObjectMetadata,
    null::or_default,
};

/// Longest system UUID that is one, in bytes: SMBIOS has 36 characters, and a kubelet reports any text.
const LONGEST_UUID: usize = 128;

#[derive(Deserialize)]
pub(super) struct NodeJson {
    metadata: ObjectMetadata<Arc<str>>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "providerID", deserialize_with = "or_default")]
    provider_id: Box<str>,
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pod_cidrs: Box<[Box<str>]>,
    #[serde(deserialize_with = "or_default")]
    taints: Box<[Taint]>,
    #[serde(deserialize_with = "or_default")]
    unschedulable: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "or_default")]
    addresses: Box<[NodeAddress]>,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    node_info: NodeInfo,
    #[serde(deserialize_with = "or_default")]
    volumes_in_use: Vec<IgnoredAny>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "systemUUID", deserialize_with = "or_default")]
    system_uuid: Box<str>,
}

impl From<NodeJson> for NodeView {
    fn from(node: NodeJson) -> Self {
        let NodeJson {
            metadata,
            spec,
            status,
        } = node;
        let system_uuid = Some(status.node_info.system_uuid);
        let system_uuid = system_uuid.filter(|uuid| uuid.len() <= LONGEST_UUID);
        let ready = condition::find(&status.conditions, "Ready");
        Self {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            created: metadata.creation_timestamp.unwrap_or_default(),
            deleted: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations.without(ANNOTATION_OF_KUBECTL),
            provider_id: spec.provider_id,
            pod_cidrs: spec.pod_cidrs,
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            addresses: status.addresses,
            reported: None,
            ready: match ready.map(|c| &*c.status) {
                Some("True") => Ready::True,
                Some("False") => Ready::False,
                _ => Ready::Unknown,
            },
            ready_since: ready.and_then(|c| c.last_transition_time),
            conditions: qualified(status.conditions),
            system_uuid: system_uuid.unwrap_or_default(),
            has_volumes_in_use: !status.volumes_in_use.is_empty(),
        }
    }
}

fn qualified(mut conditions: Vec<Condition>) -> Box<[Condition]> {
    conditions.retain(|condition| {
        condition.kind.contains('/')
            || [
                MAINTENANCE_PLANNED,
                MAINTENANCE_IN_PROGRESS,
                NETWORK_UNAVAILABLE,
            ]
            .contains(&&*condition.kind)
    });
    conditions.sort_unstable_by(|a, b| a.kind.cmp(&b.kind));
    conditions.into()
}

//! The parts of the API's JSON that a view is made of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    ANNOTATION_LAST_APPLIED, NETWORK_UNAVAILABLE, NetworkUnavailable, NodeAddress, NodeView, Ready,
    Taint, maintenance::MAINTENANCE_PLANNED,
};
use crate::{
    condition::{self, Condition},
    metadata::ObjectMetadata,
    null::{is_default, or_default},
};

#[derive(Serialize, Deserialize)]
pub(super) struct NodeJson {
    metadata: ObjectMetadata<Arc<str>>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
    /// In a recording: the addresses that count, where the status has others. The API server has no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confirmed_addresses: Option<Box<[NodeAddress]>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(
        rename = "providerID",
        deserialize_with = "or_default",
        skip_serializing_if = "is_default"
    )]
    provider_id: Box<str>,
    #[serde(
        rename = "podCIDRs",
        deserialize_with = "or_default",
        skip_serializing_if = "is_default"
    )]
    pod_cidrs: Box<[Box<str>]>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    taints: Box<[Taint]>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    unschedulable: bool,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    addresses: Box<[NodeAddress]>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    node_info: NodeInfo,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(
        rename = "systemUUID",
        deserialize_with = "or_default",
        skip_serializing_if = "is_default"
    )]
    system_uuid: Box<str>,
}

impl From<NodeJson> for NodeView {
    fn from(node: NodeJson) -> Self {
        let NodeJson {
            metadata,
            spec,
            status,
            confirmed_addresses,
        } = node;
        let ready = condition::find(&status.conditions, "Ready");
        let network = condition::find(&status.conditions, NETWORK_UNAVAILABLE);
        let (addresses, reported) = match confirmed_addresses {
            Some(confirmed) => (confirmed, Some(status.addresses)),
            None => (status.addresses, None),
        };
        Self {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            created: metadata.creation_timestamp.unwrap_or_default(),
            deleted: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations.without(ANNOTATION_LAST_APPLIED),
            provider_id: spec.provider_id,
            pod_cidrs: spec.pod_cidrs,
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            addresses,
            reported,
            ready: match ready.map(|c| &*c.status) {
                Some("True") => Ready::True,
                Some("False") => Ready::False,
                _ => Ready::Unknown,
            },
            ready_since: ready.and_then(|c| c.last_transition_time),
            network_unavailable: network.map(|c| {
                Box::new(NetworkUnavailable {
                    status: condition::Status::parse(&c.status),
                    reason: c.reason.clone(),
                    message: c.message.clone(),
                    since: c.last_transition_time,
                })
            }),
            conditions: qualified(status.conditions),
            system_uuid: status.node_info.system_uuid,
        }
    }
}

impl From<NodeView> for NodeJson {
    /// Only what a view holds: of the conditions that have no domain, the two that matter.
    fn from(node: NodeView) -> Self {
        let ready =
            (node.ready != Ready::Unknown || node.ready_since.is_some()).then(|| Condition {
                kind: "Ready".into(),
                status: match node.ready {
                    Ready::True => "True",
                    Ready::False => "False",
                    Ready::Unknown => "Unknown",
                }
                .into(),
                last_transition_time: node.ready_since,
                ..Condition::default()
            });
        let network = node.network_unavailable.map(|network| Condition {
            kind: NETWORK_UNAVAILABLE.into(),
            status: network.status.map_or("", condition::Status::as_str).into(),
            reason: network.reason,
            message: network.message,
            last_transition_time: network.since,
        });
        let unqualified = ready.into_iter().chain(network);
        let (addresses, confirmed_addresses) = match node.reported {
            Some(reported) => (reported, Some(node.addresses)),
            None => (node.addresses, None),
        };
        Self {
            metadata: ObjectMetadata {
                name: node.name,
                namespace: Box::default(),
                uid: node.uid,
                resource_version: node.resource_version,
                creation_timestamp: Some(node.created),
                deletion_timestamp: node.deleted,
                labels: node.labels,
                annotations: node.annotations,
                finalizers: Box::default(),
            },
            spec: Spec {
                provider_id: node.provider_id,
                pod_cidrs: node.pod_cidrs,
                taints: node.taints,
                unschedulable: node.unschedulable,
            },
            status: Status {
                addresses,
                conditions: unqualified.chain(node.conditions).collect(),
                node_info: NodeInfo {
                    system_uuid: node.system_uuid,
                },
            },
            confirmed_addresses,
        }
    }
}

fn qualified(mut conditions: Vec<Condition>) -> Box<[Condition]> {
    conditions.retain(|condition| {
        condition.kind.contains('/') || &*condition.kind == MAINTENANCE_PLANNED
    });
    conditions.sort_unstable_by(|a, b| a.kind.cmp(&b.kind));
    conditions.into()
}

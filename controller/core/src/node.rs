//! The view of a `v1.Node`: the fields that the loops need, about a tenth of its bytes.
//!
//! ```text
//!  API JSON ─► NodeView ─┬─► ownership: may this provider touch it?
//!  provider ─► answer ───┼─► plan: initialise it, keep it in sync       (cloud-node)
//!                        ├─► lifecycle ─► deletion_limit: taint, delete (cloud-node-lifecycle)
//!                        ├─► maintenance: conditions and taint          (cloud-node)
//!                        └─► effects: the provider's own annotations and conditions
//! ```
//!
//! The store of `outrigger-kube` makes a view of each object of a list or watch and shares it with all loops. A view is
//! immutable; each change that is written makes the next one ([`change::NodeChange::applied_to`]), so that a loop decides
//! on what it has written and need not wait for the watch. Labels, taints and annotations that loops write, and those by
//! which operators direct them, are named here.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    condition::Condition,
    go_duration,
    null::{is_default, or_default},
    string_map::StringMap,
    targets::TAINT_AUTOSCALER,
};

pub mod address;
pub mod answer;
pub mod change;
pub mod claims;
pub mod deletion_limit;
pub mod effects;
mod event;
pub mod instance;
pub mod labels;
pub mod lifecycle;
pub mod maintenance;
pub mod ownership;
pub mod plan;
mod wire;

/// Taint that the kubelet sets when it runs with an external cloud provider, and that the
/// cloud-node loop removes; its value and effect do not matter.
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Taint of a node whose instance is stopped, with the effect [`EFFECT_NO_SCHEDULE`] (L-10).
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Taint effect: nothing new is scheduled, and nothing that runs is evicted.
pub const EFFECT_NO_SCHEDULE: &str = "NoSchedule";

/// Taint of a node whose instance has been stopped for long, with the effect [`EFFECT_NO_EXECUTE`]: Kubernetes deletes its
/// Pods by force and detaches their volumes. Kubernetes looks at the key alone.
pub const TAINT_OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Value of the taint [`TAINT_OUT_OF_SERVICE`] that the controller adds, and by which it knows its own again: other
/// clients, and operators as Kubernetes' page tells them to, write `nodeshutdown`.
pub const OUT_OF_SERVICE_VALUE: &str = "nodeshutdown.outrigger.dev";

/// Taint of a node whose cloud has announced maintenance, with the effect [`EFFECT_PREFER_NO_SCHEDULE`]
/// ([`crate::node::maintenance`]).
pub const TAINT_MAINTENANCE: &str = "outrigger.dev/maintenance-planned";

/// Taint effect: the scheduler prefers other nodes. A cloud that announces the maintenance of all machines must not keep
/// each Pod from being scheduled.
pub const EFFECT_PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// Taint effect: what does not tolerate it is evicted.
pub const EFFECT_NO_EXECUTE: &str = "NoExecute";

/// Label by which an operator pauses a Node: with the value `true` it is not written to, and not deleted. A kubelet cannot
/// set labels of this domain, on its own Node either, where the API server runs the admission plugin `NodeRestriction`.
pub const LABEL_PAUSED: &str = "outrigger.dev.node-restriction.kubernetes.io/paused";

/// Label by which an operator confirms a deletion that is withheld: with the value `true`, set after the Node's first
/// absence ([`crate::node::deletion_limit`]). Protected as [`LABEL_PAUSED`] is.
pub const LABEL_CONFIRM_DELETION: &str =
    "outrigger.dev.node-restriction.kubernetes.io/confirm-deletion";

/// Annotation of the Lease by which an operator confirms all deletions that are withheld: their number, or a larger one. It
/// is removed before it counts.
pub const ANNOTATION_CONFIRM_DELETIONS: &str = "outrigger.dev/confirm-deletions";

/// Label that says for one Node what `--out-of-service-after` says for all: a duration as in the flag; `0` for never.
/// Protected as [`LABEL_PAUSED`] is.
pub const LABEL_OUT_OF_SERVICE_AFTER: &str =
    "outrigger.dev.node-restriction.kubernetes.io/out-of-service-after";

/// Annotation with the addresses of the kubelet's `--node-ip`.
pub const ANNOTATION_PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Written by kubectl, as large as the object itself, and nothing that a loop or provider reads.
pub(crate) const ANNOTATION_OF_KUBECTL: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Type of the condition that says whether Pods of a node are without a route (R-35).
pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";

/// A `v1.Node` as the loops see it, deserialised straight from the API's JSON with everything else
/// skipped. Cheap to share, immutable: a change makes a new view.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "wire::NodeJson")]
pub struct NodeView {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: StringMap,
    /// `metadata.annotations` without kubectl's last-applied-configuration; in a store, those that are read
    /// ([`crate::annotations`]).
    pub annotations: StringMap,
    /// `spec.providerID`, empty until it is set.
    pub provider_id: Box<str>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Box<[Box<str>]>,
    /// `spec.taints`.
    pub taints: Box<[Taint]>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Addresses that load balancers and routes send to: `status.addresses`, or, once the loops hold them, the addresses
    /// that the cloud reported last ([`Self::protecting_addresses`]).
    pub addresses: Box<[NodeAddress]>,
    /// `status.addresses` where they are others: another client has written them.
    pub reported: Option<Box<[NodeAddress]>>,
    /// The condition `Ready`.
    pub ready: Ready,
    /// When `ready` became what it is; absent without the condition, and where its time cannot be
    /// read. A time out of range is the nearest [`Timestamp`].
    pub ready_since: Option<Timestamp>,
    /// Conditions with a domain in their type, the two of [`maintenance`] and [`NETWORK_UNAVAILABLE`], by type: others of
    /// Kubernetes' own are left out.
    pub conditions: Box<[Condition]>,
    /// `status.nodeInfo.systemUUID`; empty if it is longer than 128 bytes.
    pub system_uuid: Box<str>,
    /// `status.volumesInUse` has entries.
    pub has_volumes_in_use: bool,
}

impl NodeView {
    /// Returns true if it still has the taint that the kubelet sets until a cloud has initialised the node (N-10).
    pub fn is_uninitialized(&self) -> bool {
        self.taints
            .iter()
            .any(|taint| &*taint.key == TAINT_UNINITIALIZED)
    }

    /// Returns true if it has no provider ID, nor the taint that asks for one: its kubelet runs without
    /// `--cloud-provider=external`, or another client has removed the taint.
    pub fn is_without_cloud(&self) -> bool {
        self.provider_id.is_empty() && !self.is_uninitialized()
    }

    /// Returns true if it has the taint of a stopped instance.
    pub fn is_shut_down(&self) -> bool {
        self.taints.iter().any(Taint::is_shutdown)
    }

    /// Returns true if it has a taint [`TAINT_OUT_OF_SERVICE`], whoever added it.
    pub fn is_out_of_service(&self) -> bool {
        let mut taints = self.taints.iter();
        taints.any(|taint| &*taint.key == TAINT_OUT_OF_SERVICE)
    }

    /// Returns true if it has a taint that the controller removes once it is ready.
    pub fn has_taint_of_stop(&self) -> bool {
        self.taints.iter().any(Taint::is_of_stop)
    }

    /// How long its instance has to be stopped until it is taken out of service; none: it never is. `flag` is
    /// `--out-of-service-after`.
    ///
    /// # Errors
    /// The label cannot be read.
    pub fn out_of_service_after(
        &self,
        flag: Duration,
    ) -> Result<Option<Duration>, UnreadableLabel> {
        let after = match self.labels.get(LABEL_OUT_OF_SERVICE_AFTER) {
            None => flag,
            Some(text) => go_duration::parse(text)
                .map_err(|_unreadable| UnreadableLabel { value: text.into() })?,
        };
        Ok((!after.is_zero()).then_some(after))
    }

    /// Returns true if an operator has paused it ([`LABEL_PAUSED`]).
    pub fn is_paused(&self) -> bool {
        self.labels.get(LABEL_PAUSED) == Some("true")
    }

    /// Returns true if its end was announced: its deletion has begun, the autoscaler's taint, whose value says when it was
    /// added, is older than the silence of its kubelet, or the cloud retires its machine, which it still had when it said so.
    pub fn is_end_announced(&self) -> bool {
        let is_earlier = |taint: &Taint| {
            let tainted = taint.value.parse().ok();
            let tainted = tainted.and_then(|second| Timestamp::from_second(second).ok());
            self.ready == Ready::True
                || tainted.is_some_and(|at| self.ready_since.is_some_and(|since| at <= since))
        };
        let mut taints = self.taints.iter();
        self.deleted.is_some()
            || maintenance::is_retirement_announced(&self.conditions)
            || taints.any(|taint| &*taint.key == TAINT_AUTOSCALER && is_earlier(taint))
    }

    /// Returns true if it has the label by which an operator confirms its deletion ([`LABEL_CONFIRM_DELETION`]), which does
    /// not say when it was set.
    pub fn is_deletion_confirmed(&self) -> bool {
        self.labels.get(LABEL_CONFIRM_DELETION) == Some("true")
    }
}

/// The value of [`LABEL_OUT_OF_SERVICE_AFTER`] is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its label {LABEL_OUT_OF_SERVICE_AFTER} is {value:?}, which is no duration; write it as 10m or 1h30m, or 0 for never"
)]
pub struct UnreadableLabel {
    /// The value.
    value: Box<str>,
}

/// One of `spec.taints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Taint key.
    #[serde(deserialize_with = "or_default")]
    pub key: Box<str>,
    /// Taint value, may be empty.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub value: Box<str>,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`, or what a later Kubernetes adds.
    #[serde(deserialize_with = "or_default")]
    pub effect: Box<str>,
    /// Its other fields, such as `timeAdded`: a write of the whole list keeps them.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Taint {
    /// A taint of these fields alone.
    pub fn new(key: &str, value: &str, effect: &str) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
            others: Map::new(),
        }
    }

    /// Returns true if it is the taint of a stopped instance; its value does not matter (L-12).
    pub fn is_shutdown(&self) -> bool {
        self.is(TAINT_SHUTDOWN, EFFECT_NO_SCHEDULE)
    }

    /// Returns true if the controller removes it from a ready node: the taint of a stopped instance, or the one of its own
    /// that takes a node out of service.
    pub(crate) fn is_of_stop(&self) -> bool {
        self.is_shutdown()
            || (self.is(TAINT_OUT_OF_SERVICE, EFFECT_NO_EXECUTE)
                && &*self.value == OUT_OF_SERVICE_VALUE)
    }

    /// Returns true if it is the taint of announced maintenance, whoever has added it.
    pub(crate) fn is_of_maintenance(&self) -> bool {
        self.is(TAINT_MAINTENANCE, EFFECT_PREFER_NO_SCHEDULE)
    }

    /// The API server identifies a taint by key and effect.
    pub(crate) fn is(&self, key: &str, effect: &str) -> bool {
        *self.key == *key && *self.effect == *effect
    }
}

/// One of `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeAddress {
    /// `Hostname`, `InternalIP`, `ExternalIP`, `InternalDNS`, `ExternalDNS`.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub kind: Box<str>,
    /// IP address without prefix length, or DNS name, as the type says.
    #[serde(default, deserialize_with = "or_default")]
    pub address: Box<str>,
}

impl NodeAddress {
    /// Returns true if its type is one of IP addresses.
    pub fn is_ip(&self) -> bool {
        [address::INTERNAL_IP, address::EXTERNAL_IP].contains(&&*self.kind)
    }
}

/// Status of the condition `Ready`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`, an unknown value, or no such condition (L-3).
    #[default]
    Unknown,
}

#[cfg(test)]
mod tests;

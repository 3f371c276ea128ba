//! The view of a `v1.Service` that service-lb keeps, and its decisions about one.
//!
//! ```text
//!  API JSON ─► ServiceView ─┬─► Ownership: is it this provider's, and for what
//!                           ├─► LastApplied: is it what the load balancer was made from?
//!                           ▼
//!                  plan: next ─► Step ─► (a call) ─► answer ─► Consequence { patch, events, requeue }
//! ```
//!
//! The store of `outrigger-kube` makes a view of each Service and shares it. [`plan`] is the entrance for the loop;
//! [`change`] and [`ownership`] say which events of the watch are a reason to look; [`options`], [`source_ranges`] and
//! [`capability`] say what the provider is sent. Annotations, conditions and the finalizer of a Service are named here.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    null::{is_default, or_default},
    selector::Selector,
    string_map::StringMap,
    targets::{self, ANNOTATION_NODE_SELECTOR},
};

pub mod answer;
pub mod capability;
pub mod change;
pub mod event;
pub mod last_applied;
pub mod options;
pub mod ownership;
pub mod patch_plan;
pub mod plan;
mod size;
pub mod source_ranges;
mod wire;

/// Holds a Service until its load balancer is gone. Shared with other implementations, so that
/// it alone does not name the owner of the load balancer.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// The `spec.type` of a Service that wants a load balancer.
pub const TYPE_LOAD_BALANCER: &str = "LoadBalancer";

/// Annotation by which an operator pauses a Service: with the value `true` its load balancer is neither
/// made, changed nor deleted.
pub const ANNOTATION_PAUSED: &str = "outrigger.dev/paused";

/// Annotation by which an operator has a load balancer ensured once more: with any value that it did
/// not have before.
pub const ANNOTATION_RESYNC: &str = "outrigger.dev/resync";

/// The conditions of a Service that show the state of its load balancer; usable with
/// `kubectl wait`, removed with the finalizer.
pub mod condition {
    /// True if the provider accepted the Service, `False` for one that it does not manage or that is
    /// wrong in itself.
    pub const ACCEPTED: &str = "outrigger.dev/Accepted";

    /// True if the load balancer is what the Service wants, and ready.
    pub const PROVISIONED: &str = "outrigger.dev/Provisioned";

    /// True if the load balancer has the current targets. `False` only after some time of failure.
    pub const TARGETS_IN_SYNC: &str = "outrigger.dev/TargetsInSync";

    /// `True` as long as nothing is done for the Service though it wants something; the reason says why,
    /// the message what to do. Removed with the wait.
    pub const WAITING: &str = "outrigger.dev/Waiting";

    /// All of ours.
    pub const OURS: [&str; 4] = [ACCEPTED, PROVISIONED, TARGETS_IN_SYNC, WAITING];
}

/// A `v1.Service` as the loops see it, deserialised straight from the API's JSON with everything
/// else skipped. Cheap to share, immutable: a change makes a new view.
///
/// A Service that is not of [`TYPE_LOAD_BALANCER`] and has no [`FINALIZER`] has metadata, finalizers and
/// `spec.type` only, so that it costs half a kilobyte.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "wire::ServiceJson")]
pub struct ServiceView {
    /// `metadata.namespace`, `/`, `metadata.name`.
    pub key: Arc<str>,
    /// `metadata.uid`: the key of its load balancer.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: StringMap,
    /// `metadata.annotations` without kubectl's last-applied-configuration; in a store, those that are read
    /// ([`crate::annotations`]).
    pub annotations: StringMap,
    /// `metadata.finalizers`.
    pub finalizers: Box<[Box<str>]>,
    /// `spec`.
    pub spec: Spec,
    /// `status.loadBalancer.ingress`.
    pub ingress: Box<[Ingress]>,
    /// `status.conditions`.
    pub conditions: Box<[Condition]>,
    /// True if it is too large to be kept: most of it was forgotten then.
    pub is_too_large: bool,
}

impl ServiceView {
    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.key
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.key
            .split_once('/')
            .map_or(&*self.key, |(_, name)| name)
    }

    /// Returns true if its type is [`TYPE_LOAD_BALANCER`].
    pub fn is_load_balancer(&self) -> bool {
        &*self.spec.kind == TYPE_LOAD_BALANCER
    }

    /// Returns true if it has [`FINALIZER`].
    pub fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|name| **name == *FINALIZER)
    }

    /// Returns true if an operator has paused it ([`ANNOTATION_PAUSED`]).
    pub fn is_paused(&self) -> bool {
        self.annotations.get(ANNOTATION_PAUSED) == Some("true")
    }

    /// Returns true if its load balancer stays as it is: an operator has paused it, or it is too large to be kept.
    pub fn is_left_alone(&self) -> bool {
        self.is_paused() || self.is_too_large
    }

    /// The selector of its targets; none: it gets all of them.
    ///
    /// # Errors
    /// A sentence for people that names the annotation that is wrong.
    pub fn node_selector(&self) -> Result<Option<Selector>, String> {
        targets::node_selector(&self.annotations)
    }

    /// Returns true if it may select some of the targets.
    pub fn selects(&self) -> bool {
        self.annotations.get(ANNOTATION_NODE_SELECTOR).is_some()
    }

    /// Its condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        crate::condition::find(&self.conditions, kind)
    }
}

/// `spec`, as much of it as concerns a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// `type`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: Box<str>,
    /// `ports` in their order.
    #[serde(deserialize_with = "or_default")]
    pub ports: Box<[Port]>,
    /// `loadBalancerClass`.
    pub load_balancer_class: Option<Box<str>>,
    /// `loadBalancerIP`, empty without.
    #[serde(rename = "loadBalancerIP", deserialize_with = "or_default")]
    pub load_balancer_ip: Box<str>,
    /// `loadBalancerSourceRanges`.
    #[serde(deserialize_with = "or_default")]
    pub load_balancer_source_ranges: Box<[Box<str>]>,
    /// `externalTrafficPolicy`: `Cluster`, `Local`.
    #[serde(deserialize_with = "or_default")]
    pub external_traffic_policy: Box<str>,
    /// `sessionAffinity`: `None`, `ClientIP`.
    #[serde(deserialize_with = "or_default")]
    pub session_affinity: Box<str>,
    /// `sessionAffinityConfig.clientIP.timeoutSeconds`.
    #[serde(
        rename = "sessionAffinityConfig",
        deserialize_with = "wire::affinity_timeout"
    )]
    pub session_affinity_timeout: Option<i32>,
    /// `ipFamilies` in their order: `IPv4`, `IPv6`.
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Box<[Box<str>]>,
    /// `ipFamilyPolicy`, empty without.
    #[serde(deserialize_with = "or_default")]
    pub ip_family_policy: Box<str>,
    /// `externalIPs`.
    #[serde(rename = "externalIPs", deserialize_with = "or_default")]
    pub external_ips: Box<[Box<str>]>,
    /// `healthCheckNodePort`, 0 without.
    #[serde(deserialize_with = "or_default")]
    pub health_check_node_port: i32,
}

/// An entry of `spec.ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Port {
    /// `name`, empty without.
    #[serde(deserialize_with = "or_default")]
    pub name: Box<str>,
    /// `protocol`: `TCP`, `UDP`, `SCTP`, or what a later Kubernetes adds.
    #[serde(deserialize_with = "or_default")]
    pub protocol: Box<str>,
    /// `port`.
    #[serde(deserialize_with = "or_default")]
    pub port: i32,
    /// `nodePort`, 0 without.
    #[serde(deserialize_with = "or_default")]
    pub node_port: i32,
    /// `targetPort`, number or name, as text.
    #[serde(deserialize_with = "wire::int_or_string")]
    pub target_port: Box<str>,
    /// `appProtocol`.
    pub app_protocol: Option<Box<str>>,
}

/// An entry of `status.loadBalancer.ingress`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress {
    /// `ip`, empty without.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub ip: Box<str>,
    /// `hostname`, empty without.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub hostname: Box<str>,
    /// `ipMode`: `VIP`, `Proxy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_mode: Option<Box<str>>,
    /// `ports`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub ports: Box<[PortStatus]>,
}

/// An entry of the `ports` of an [`Ingress`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortStatus {
    /// `port`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub port: i32,
    /// `protocol`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub protocol: Box<str>,
    /// `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
}

#[cfg(test)]
mod tests;

//! The parts of the API's JSON that a [`ServiceView`] is made of. Most of a Service that neither wants a load balancer nor
//! has our finalizer is left out.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::{FINALIZER, Ingress, ServiceView, Spec, TYPE_LOAD_BALANCER};
use crate::{
    condition::Condition, metadata::ObjectMetadata, node::ANNOTATION_OF_KUBECTL, null::or_default,
    string_map::StringMap,
};

#[derive(Deserialize)]
pub(super) struct ServiceJson {
    metadata: ObjectMetadata,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "or_default")]
    load_balancer: LoadBalancer,
    #[serde(deserialize_with = "or_default")]
    conditions: Box<[Condition]>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    #[serde(deserialize_with = "or_default")]
    ingress: Box<[Ingress]>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AffinityConfig {
    #[serde(rename = "clientIP", deserialize_with = "or_default")]
    client_ip: ClientIp,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClientIp {
    timeout_seconds: Option<i32>,
}

/// `sessionAffinityConfig` has this one leaf.
pub(super) fn affinity_timeout<'de, D>(deserializer: D) -> Result<Option<i32>, D::Error>
where
    D: Deserializer<'de>,
{
    let config: AffinityConfig = or_default(deserializer)?;
    Ok(config.client_ip.timeout_seconds)
}

/// Kubernetes' `IntOrString`.
pub(super) fn int_or_string<'de, D>(deserializer: D) -> Result<Box<str>, D::Error>
where
    D: Deserializer<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum IntOrString {
        Int(i64),
        String(Box<str>),
    }

    Ok(match Option::deserialize(deserializer)? {
        None => Box::default(),
        Some(IntOrString::Int(number)) => number.to_string().into(),
        Some(IntOrString::String(text)) => text,
    })
}

impl From<ServiceJson> for ServiceView {
    fn from(service: ServiceJson) -> Self {
        let ServiceJson {
            mut metadata,
            mut spec,
            mut status,
        } = service;
        let is_held = metadata.finalizers.iter().any(|name| **name == *FINALIZER);
        if *spec.kind != *TYPE_LOAD_BALANCER && !is_held {
            // Most Services of a cluster, and all that is to be known of them is that they are such.
            metadata.labels = StringMap::default();
            metadata.annotations = StringMap::default();
            spec = Spec {
                kind: spec.kind,
                ..Spec::default()
            };
            status = Status::default();
        }
        Self {
            key: Arc::from(format!("{}/{}", metadata.namespace, metadata.name)),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deleted: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations.without(ANNOTATION_OF_KUBECTL),
            finalizers: metadata.finalizers,
            spec,
            ingress: status.load_balancer.ingress,
            conditions: status.conditions,
            is_too_large: false,
        }
    }
}

//! The Lease as JSON. Fields that the election does not know are carried along, since a PUT
//! replaces the whole object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_core::{api_time, lease::LeaseRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::LeaderConfig;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LeaseObject {
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_duration_seconds: Option<i32>,
    /// Both as text: Go's times reach further than [`Timestamp`], and no time of another holder may
    /// keep this one from reading the Lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    acquire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_transitions: Option<i32>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The API server reads a `MicroTime` only with exactly six decimals.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

impl LeaseObject {
    /// A Lease that does not exist yet.
    pub(super) fn new(config: &LeaderConfig, record: &LeaseRecord) -> Self {
        let mut metadata = Metadata::default();
        metadata
            .rest
            .insert("namespace".to_owned(), json!(config.namespace));
        metadata.rest.insert("name".to_owned(), json!(config.name));
        let mut rest = Map::new();
        rest.insert("apiVersion".to_owned(), json!("coordination.k8s.io/v1"));
        rest.insert("kind".to_owned(), json!("Lease"));
        Self {
            metadata,
            spec: Spec::default(),
            rest,
        }
        .with(record)
    }

    /// The same with another record.
    pub(super) fn with(mut self, record: &LeaseRecord) -> Self {
        self.spec = Spec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: record.duration_seconds,
            acquire_time: record.acquired.map(micro_time),
            renew_time: record.renewed.map(micro_time),
            lease_transitions: Some(record.transitions),
            rest: self.spec.rest,
        };
        self
    }

    pub(super) fn record(&self) -> LeaseRecord {
        let spec = &self.spec;
        let time = |text: &Option<String>| api_time::parse(text.as_deref()?);
        let unreadable = |text: &&String| text.parse::<Timestamp>().is_err();
        LeaseRecord {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds,
            acquired: time(&spec.acquire_time),
            renewed: time(&spec.renew_time),
            renewed_text: spec
                .renew_time
                .as_ref()
                .filter(unreadable)
                .map(|text| (**text).into()),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;

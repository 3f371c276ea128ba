//! The Lease as JSON. Fields that the election does not know are carried along, since a PUT
//! replaces the whole object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_core::lease::Record;
use serde::{Deserialize, Serialize, Serializer};
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
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "micro_time")]
    acquire_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "micro_time")]
    renew_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_transitions: Option<i32>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The API server reads a `MicroTime` only with exactly six decimals.
#[expect(clippy::ref_option, reason = "serde passes the field")]
fn micro_time<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(&format_args!("{time:.6}")),
        None => to.serialize_none(),
    }
}

impl LeaseObject {
    /// A Lease that does not exist yet.
    pub(super) fn new(config: &LeaderConfig, record: &Record) -> Self {
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
    pub(super) fn with(mut self, record: &Record) -> Self {
        self.spec = Spec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: record.duration_seconds,
            acquire_time: record.acquired,
            renew_time: record.renewed,
            lease_transitions: Some(record.transitions),
            rest: self.spec.rest,
        };
        self
    }

    pub(super) fn record(&self) -> Record {
        let spec = &self.spec;
        Record {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds,
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }
}

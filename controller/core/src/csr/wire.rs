//! The parts of the API's JSON that a view is made of.

use std::sync::Arc;

use serde::{Deserialize, de::IgnoredAny};

use super::{CsrView, SIGNER, form};
use crate::{metadata::ObjectMetadata, null::or_default};

#[derive(Deserialize)]
pub(super) struct CsrJson {
    metadata: ObjectMetadata<Arc<str>>,
    #[serde(default, deserialize_with = "or_default")]
    spec: RequestSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

/// Immutable in the API server; all but the request, the usages and the lifetime is its own word.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RequestSpec {
    #[serde(deserialize_with = "or_default")]
    signer_name: Box<str>,
    /// Base64 of PEM.
    #[serde(deserialize_with = "or_default")]
    pub(super) request: Box<str>,
    #[serde(deserialize_with = "or_default")]
    pub(super) username: Box<str>,
    #[serde(deserialize_with = "or_default")]
    pub(super) groups: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default")]
    pub(super) usages: Vec<Box<str>>,
    pub(super) expiration_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    /// Approved, Denied, Failed.
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    certificate: Box<str>,
}

impl From<CsrJson> for CsrView {
    fn from(csr: CsrJson) -> Self {
        let CsrJson {
            metadata,
            spec,
            status,
        } = csr;
        let is_pending = *spec.signer_name == *SIGNER
            && status.conditions.is_empty()
            && status.certificate.is_empty();
        Self {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            created: metadata.creation_timestamp,
            pending: is_pending.then(|| form::check(&spec)),
            requester: spec.username,
        }
    }
}

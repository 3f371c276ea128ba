//! `CertificateSigningRequest`s of kubelets for their serving certificates, and which of them are approved.
//!
//! ```text
//!  API JSON ─► form: all that the request says itself ─► CsrView ─► step ─► Nothing, Leave, Await
//!                                                                    └► Ask ─► provider ─► Lookup ─► decide ─► approved, or why not
//! ```
//!
//! A serving certificate is worth the names in it: who has one can play the kubelet behind them to the API server. So each
//! name has to be one that the cloud reports for the machine of the requester. `status.addresses` of the Node proves
//! nothing, since a kubelet writes it.
//!
//! The loop of kubelet serving certificates calls [`step`] for each request of the store, looks up the Node of
//! [`CsrStep::Ask`] and passes the answer to [`decide()`]. The answer must be no older than the request. Nothing here denies
//! a request: one that is not approved stays pending, for an operator or another approver, and [`CsrProblem`] says why.

use std::{borrow::Cow, net::IpAddr, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};

use crate::{metadata::ObjectMetadata, null::or_default};

mod decide;
mod form;

pub use decide::{CsrStep, decide, step};

/// The signer of serving certificates of kubelets, in `spec.signerName`.
pub const SIGNER: &str = "kubernetes.io/kubelet-serving";

/// The organisation of a kubelet, and its group.
const NODES: &str = "system:nodes";

/// A `certificates.k8s.io/v1` `CertificateSigningRequest` as the loop sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "CsrJson")]
pub struct CsrView {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `spec.username`: the API server's word for who made it.
    pub requester: Box<str>,
    /// The certificate that it asks for, as long as it is neither approved nor denied nor failed; none for another signer.
    pub pending: Option<Result<ServingRequest, CsrProblem>>,
}

impl CsrView {
    /// The same request once it is decided.
    #[must_use]
    pub fn decided(&self, resource_version: &str) -> Self {
        Self {
            resource_version: resource_version.into(),
            pending: None,
            ..self.clone()
        }
    }
}

/// A request that is right in its form: the kubelet of `node` asks for a certificate with `names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingRequest {
    /// Name of the Node.
    pub node: Arc<str>,
    /// All subject alternative names, at least one.
    pub names: Box<[SubjectName]>,
}

/// A subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectName {
    /// A DNS name as the request spells it; its case does not matter.
    Dns(Box<str>),
    /// An IP address, never an IPv4 address mapped into IPv6.
    Ip(IpAddr),
}

/// Why a request is left alone: the check that it does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CsrProblem {
    /// The value of the metric's label `reason`.
    pub reason: &'static str,
    /// A sentence for its event.
    text: Cow<'static, str>,
}

impl CsrProblem {
    /// Only the cloud-node loop, or an operator, says which machine a Node is.
    pub const NO_PROVIDER_ID: &'static str = "no_provider_id";

    /// The problem with `reason` that `text` tells.
    #[must_use]
    pub const fn of(reason: &'static str, text: &'static str) -> Self {
        let text = Cow::Borrowed(text);
        Self { reason, text }
    }

    const fn new(reason: &'static str, text: String) -> Self {
        let text = Cow::Owned(text);
        Self { reason, text }
    }
}

/// The parts of the API's JSON that a view is made of.
#[derive(Deserialize)]
struct CsrJson {
    metadata: ObjectMetadata<Arc<str>>,
    #[serde(default, deserialize_with = "or_default")]
    spec: RequestSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

/// Immutable in the API server; all but the request, the usages and the lifetime is its own word.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RequestSpec {
    #[serde(deserialize_with = "or_default")]
    signer_name: Box<str>,
    /// Base64 of PEM.
    #[serde(deserialize_with = "or_default")]
    request: Box<str>,
    #[serde(deserialize_with = "or_default")]
    username: Box<str>,
    #[serde(deserialize_with = "or_default")]
    groups: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default")]
    usages: Vec<Box<str>>,
    expiration_seconds: Option<i64>,
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

#[cfg(test)]
mod tests;

//! `CertificateSigningRequest`s of kubelets for their serving certificates, and which of them are approved.
//!
//! ```text
//!  API JSON ─► form: all that the request says itself ─► CsrView ─► step ─► Leave
//!                                                                    └► Ask ─► provider ─► Lookup ─► decide ─► Approve, Leave
//! ```
//!
//! A serving certificate is worth the names in it: who has one can play the kubelet behind them to the API server. So each
//! name has to be one that the cloud reports for the machine of the requester. `status.addresses` of the Node proves
//! nothing, since a kubelet writes it.

use std::{net::IpAddr, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;

mod decide;
mod form;
mod problem;
mod wire;

pub use decide::{CsrStep, decide, step};
pub use problem::CsrProblem;

/// The signer of serving certificates of kubelets, in `spec.signerName`.
pub const SIGNER: &str = "kubernetes.io/kubelet-serving";

/// The organisation of a kubelet, and its group.
const NODES: &str = "system:nodes";

/// A `certificates.k8s.io/v1` `CertificateSigningRequest` as the loop sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "wire::CsrJson")]
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

#[cfg(test)]
mod tests;

//! The approval of a `CertificateSigningRequest`, if no client has decided about it yet.
//!
//! The loop of kubelet serving certificates writes it through the writer of its store; a request that has a decision by
//! then is left as it is.
//!
//! RBAC: `patch` on `certificatesigningrequests/approval`; `approve` on the `signers` of its signer.

use outrigger_core::csr::CsrView;
use serde_json::{Value, json};

use super::{
    patch::{Patch, add, test},
    writer::ObjectWrite,
};

/// The condition `Approved`.
#[derive(Clone, Debug)]
pub struct Approval {
    /// `message` of the condition.
    pub message: String,
}

impl ObjectWrite<CsrView> for Approval {
    fn subresource(&self) -> &'static str {
        "/approval"
    }

    /// Refused if another client has approved or denied the request, or the signer has failed.
    fn patch(&self, csr: &CsrView, _: &CsrView) -> Patch {
        let approved = json!({
            "type": "Approved", "status": "True", "reason": "AutoApproved", "message": self.message,
        });
        Patch::Json(vec![
            test("/metadata/uid", &*csr.uid),
            test("/status/conditions", Value::Null),
            add("/status/conditions", json!([approved])),
        ])
    }

    fn applied_to(&self, csr: &CsrView, version: &str) -> CsrView {
        csr.decided(version)
    }
}

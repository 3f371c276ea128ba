//! Writes to Services: finalizer, annotations, conditions and addresses in one strategic merge patch
//! of `services/<name>/status` (S-4).
//!
//! It names what it changes and nothing else: a finalizer, an annotation or a condition of another
//! client at the same time stays (S-46), which a JSON Patch could only do by failing on it. A
//! `metadata.uid` in it that is not the Service's makes the API server refuse all of it (422): that
//! field cannot change. Only what could do harm late holds for one version alone (409,
//! [`StatusPatch::is_exact`]).
//!
//! RBAC: `get` on `services`, `patch` on `services/status`.

use outrigger_core::service::{ServiceView, patch_plan::StatusPatch};

use super::{
    patch::Patch,
    writer::{ObjectWrite, ObjectWriter},
};

mod body;

/// Writes to Services, and takes what it wrote into the store.
pub type ServiceWriter = ObjectWriter<ServiceView>;

impl ObjectWrite<ServiceView> for StatusPatch {
    fn subresource(&self) -> &'static str {
        "/status"
    }

    fn patch(&self, service: &ServiceView, newest: &ServiceView) -> Patch {
        Patch::Strategic(body::of(self, service, newest))
    }

    fn applied_to(&self, service: &ServiceView, version: &str) -> ServiceView {
        self.applied_to(service, version)
    }
}

#[cfg(test)]
mod tests;

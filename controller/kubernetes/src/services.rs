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

use std::{fmt, sync::Arc};

use outrigger_core::service::{
    ServiceView,
    patch_plan::{FinalizerChange, StatusPatch},
};

use super::{
    api::{Api, PatchKind},
    error::ApiError,
    store::Store,
};

mod body;

/// Writes to Services, and takes what it wrote into the store.
#[derive(Clone)]
pub struct ServiceWriter {
    api: Api,
    services: Arc<Store<ServiceView>>,
}

impl ServiceWriter {
    /// Writes through `api`, which is fenced by the leader's lease term.
    pub const fn new(api: Api, services: Arc<Store<ServiceView>>) -> Self {
        Self { api, services }
    }

    /// Writes `patch`, which was planned on `service`. Returns the Service as it is then, or none if
    /// it is gone or has become another of the same name.
    ///
    /// # Errors
    /// Of the class `conflict` if the patch does not fit what the Service has become (being
    /// deleted, of another type), which the store knows by then: a new plan helps.
    /// [`ApiError::Refused`] if validation or a policy does not take it, such as an address that is none (S-38).
    pub async fn write(
        &self,
        service: &Arc<ServiceView>,
        patch: &StatusPatch,
    ) -> Result<Option<Arc<ServiceView>>, ApiError> {
        let path = path(service) + "/status";
        let body = body::of(patch, service, &self.newest(service));
        match self.api.patch(&path, PatchKind::Strategic, &body).await {
            Ok(written) => {
                let version = &*written.metadata.resource_version;
                // The watch's newer state is under the patch.
                let apply = |held: &ServiceView| patch.applied_to(held, version);
                let (key, uid) = (&service.key, &service.uid);
                let view = self.services.written(key, uid, version, apply);
                Ok(Some(view.unwrap_or_else(|| Arc::new(apply(service)))))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) if error.may_be_outdated() => {
                match (self.read(service).await, error) {
                    (Ok(None), _) => Ok(None),
                    (Ok(Some(live)), ApiError::Refused(message)) if !fits(patch, &live) => {
                        Err(ApiError::Outdated(message))
                    }
                    // The first error is the more precise one.
                    (Ok(Some(_)) | Err(_), error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The Service as it is, taken into the store, or none if it is gone or has become another of the
    /// same name.
    ///
    /// # Errors
    /// The API server cannot be asked, or does not answer well.
    pub async fn read(&self, service: &ServiceView) -> Result<Option<Arc<ServiceView>>, ApiError> {
        match self.api.get::<ServiceView>(&path(service)).await {
            Ok(live) if live.uid == service.uid => {
                let live = Arc::new(live);
                self.services.refresh(&live);
                // The watch may have been faster.
                Ok(Some(self.newest(&live)))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As the store has it, if it is still there.
    fn newest(&self, service: &Arc<ServiceView>) -> Arc<ServiceView> {
        let held = self.services.get(&service.key);
        let same = held.filter(|held| held.uid == service.uid);
        same.unwrap_or_else(|| Arc::clone(service))
    }
}

impl fmt::Debug for ServiceWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceWriter")
            .field("services", &self.services)
            .finish_non_exhaustive()
    }
}

/// Whether `service` is one that the API server takes such a patch for.
fn fits(patch: &StatusPatch, service: &ServiceView) -> bool {
    let adds_finalizer = patch.finalizer == Some(FinalizerChange::Add) && !service.has_finalizer();
    let has_addresses = patch.ingress.as_ref().is_some_and(|list| !list.is_empty());
    !(adds_finalizer && service.deleted.is_some()) && (!has_addresses || service.is_load_balancer())
}

fn path(service: &ServiceView) -> String {
    let (namespace, name) = (service.namespace(), service.name());
    format!("/api/v1/namespaces/{namespace}/services/{name}")
}

#[cfg(test)]
mod tests;

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

use outrigger_core::{
    condition::ConditionChange,
    service::{
        FINALIZER, ServiceView,
        patch_plan::{FinalizerChange, StatusPatch},
    },
};
use serde_json::{Map, Value, json};

use super::{
    patch::{self, Patch},
    writer::{ObjectWrite, ObjectWriter},
};

/// Writes to Services, and takes what it wrote into the store.
pub type ServiceWriter = ObjectWriter<ServiceView>;

impl ObjectWrite<ServiceView> for StatusPatch {
    fn subresource(&self) -> &'static str {
        "/status"
    }

    fn patch(&self, service: &ServiceView, newest: &ServiceView) -> Patch {
        Patch::Strategic(body(self, service, newest))
    }

    fn applied_to(&self, service: &ServiceView, version: &str) -> ServiceView {
        self.applied_to(service, version)
    }
}

/// The body for `patch` as the API server reads it (S-70, S-71), planned on `service`, which is `newest` by now.
fn body(patch: &StatusPatch, service: &ServiceView, newest: &ServiceView) -> Value {
    let mut metadata = metadata(patch, newest);
    if patch.is_exact() {
        let planned_on = json!(service.resource_version);
        metadata.insert("resourceVersion".into(), planned_on);
    }
    let mut body = json!({"metadata": metadata});
    let status = status(patch, newest);
    if !status.is_empty() {
        body["status"] = status.into();
    }
    body
}

fn metadata(patch: &StatusPatch, service: &ServiceView) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("uid".into(), json!(patch.uid));
    match patch.finalizer {
        Some(FinalizerChange::Add) => {
            metadata.insert("finalizers".into(), json!([FINALIZER]));
            if !service.finalizers.is_empty() {
                // Behind the others, as the store will have it.
                let after = patch.applied_to(service, "").finalizers;
                let order: Value = after.iter().map(|name| &**name).collect();
                metadata.insert("$setElementOrder/finalizers".into(), order);
            }
        }
        // Upstream's `null` for the last one would take those that were added meanwhile with it.
        Some(FinalizerChange::Remove) => {
            let key = "$deleteFromPrimitiveList/finalizers";
            metadata.insert(key.into(), json!([FINALIZER]));
        }
        None => {}
    }
    if !patch.annotations.is_empty() {
        let annotations = patch::annotations(&patch.annotations);
        metadata.insert("annotations".into(), annotations);
    }
    metadata
}

fn status(patch: &StatusPatch, service: &ServiceView) -> Map<String, Value> {
    let mut status = Map::new();
    if !patch.conditions.is_empty() {
        let after = patch.applied_to(service, "").conditions;
        // Set conditions have to come in the order that is named, or all of it is refused (500).
        let mut changes: Vec<_> = patch.conditions.iter().collect();
        changes.sort_by_key(|change| match change {
            ConditionChange::Set(set) => after.iter().position(|c| c.kind == set.kind),
            ConditionChange::Remove(_) => None,
        });
        let changes: Value = changes.into_iter().map(patch::condition).collect();
        status.insert("conditions".into(), changes);
        let order: Value = after.iter().map(|c| json!({"type": c.kind})).collect();
        status.insert("$setElementOrder/conditions".into(), order);
    }
    if let Some(ingress) = &patch.ingress {
        // The entries as the provider gave them, defaults left to the API server (S-39).
        let list = (!ingress.is_empty()).then_some(ingress);
        status.insert("loadBalancer".into(), json!({"ingress": list}));
    }
    status
}

#[cfg(test)]
mod tests;

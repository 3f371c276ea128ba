//! Writes to a `PersistentVolume`: labels, affinity and the mark of who set them, in one patch.
//!
//! The loop writes it through the writer of its store; the admission webhook answers with the same operations.
//!
//! RBAC: `patch` on `persistentvolumes`.

use outrigger_core::volume::{ANNOTATION_LABELLED, VolumePatch, VolumeView};
use serde_json::{Value, json};

use super::{
    patch::{Operation, Patch, add, escape, test},
    writer::ObjectWrite,
};

/// The patch of `persistentvolumes/<name>` that makes `write`, planned on `volume`; of the object of an
/// admission request too. Affinity needs no `test`: the API server refuses to change it.
pub fn operations(volume: &VolumeView, write: &VolumePatch) -> Vec<Operation> {
    let mut patch = Vec::new();
    if !volume.uid.is_empty() {
        patch.push(test("/metadata/uid", &*volume.uid));
    }
    let mut entries = |map: &str, is_empty: bool, entries: Vec<(&str, &str)>| {
        let path = format!("/metadata/{map}");
        if is_empty && !entries.is_empty() {
            patch.push(test(path.as_str(), Value::Null));
            patch.push(add(path.as_str(), json!({})));
        }
        for (key, value) in entries {
            let path = format!("{path}/{}", escape(key));
            // An older mark is replaced.
            if !is_empty && key != ANNOTATION_LABELLED {
                patch.push(test(path.as_str(), Value::Null));
            }
            patch.push(add(path, value));
        }
    };
    let labels = write.labels.iter().map(|(key, value)| (&**key, &**value));
    entries("labels", volume.labels.is_empty(), labels.collect());
    let mark = write
        .labelled
        .iter()
        .map(|mark| (ANNOTATION_LABELLED, &**mark));
    entries("annotations", !volume.has_annotations, mark.collect());
    if let Some(terms) = &write.node_terms {
        let selector = json!({"required": {"nodeSelectorTerms": terms}});
        patch.push(add("/spec/nodeAffinity", selector));
    }
    patch
}

impl ObjectWrite<VolumeView> for VolumePatch {
    fn subresource(&self) -> &'static str {
        ""
    }

    fn patch(&self, object: &VolumeView, _: &VolumeView) -> Patch {
        Patch::Json(operations(object, self))
    }

    fn applied_to(&self, volume: &VolumeView, version: &str) -> VolumeView {
        self.applied_to(volume, version)
    }
}

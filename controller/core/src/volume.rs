//! Labels and node affinity of volumes (`v1.PersistentVolume`) that no provisioner made, for the admission webhook and the
//! loop persistentvolume-labels.
//!
//! ```text
//!  API JSON ─► VolumeView ─► left_alone ─► no: provider ─► RawTopology::check ─► plan ─► VolumePatch
//! ```
//!
//! Both callers ask [`left_alone`] first, look up the volume, and carry out the patch: the webhook in its answer, the loop
//! in one PATCH. A label that the volume has is never overwritten, and node affinity that names the same fact is left as it
//! is (P-25, P-31).
//!
//! ```
//! use outrigger_core::{
//!     node::labels::ZONE,
//!     volume::{RawTopology, ServedVolumes, Stage, VolumeView, left_alone, plan},
//! };
//! use serde_json::json;
//!
//! let volume: VolumeView = serde_json::from_value(json!({
//!     "metadata": {"name": "pv-1", "uid": "uid-1"},
//!     "spec": {"csi": {"driver": "csi.example", "volumeHandle": "vol-1"}},
//! }))?;
//! let served = ServedVolumes {
//!     provider: "example".into(),
//!     csi_drivers: ["csi.example".into()].into(),
//!     kinds: [].into(),
//! };
//! assert_eq!(left_alone(&volume, &served, Stage::Existing), None);
//!
//! let answer = RawTopology {
//!     labels: [(ZONE.to_owned(), "zone-a".to_owned())].into(),
//!     ..RawTopology::default()
//! };
//! let patch = plan(&volume, &answer.check()?, &served, Stage::Existing)?;
//! let volume = patch.applied_to(&volume, "2");
//! assert_eq!(volume.labels.get(ZONE), Some("zone-a"));
//! assert_eq!(left_alone(&volume, &served, Stage::Existing), Some("labelled"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{null::or_default, string_map::StringMap};

mod plan;
mod source;
mod topology;
mod wire;

pub use plan::{Contradiction, Stage, VolumePatch, left_alone, plan};
pub use source::{InTreeKind, ServedVolumes, VolumeSource};
pub use topology::{RawTopology, VolumeTopology};

/// Annotation by which an operator pauses a volume: with the value `true` it is not written to.
pub const ANNOTATION_PAUSED: &str = "outrigger.dev/paused";

/// Annotation that a provisioner sets to its name.
pub const ANNOTATION_PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Annotation with the name of the provider and a digest of the source that the labels were made from:
/// the provider is not asked about this volume again. The digest is that of the source, since an object that is being
/// created has no UID; a manifest that was copied with it has the right labels too.
pub const ANNOTATION_LABELLED: &str = "outrigger.dev/volume-labelled";

/// Memory of a volume's node affinity: it is kept while the provider is asked, and each term of the answer copies it.
const LARGEST_AFFINITY: usize = 64 << 10;

/// A `v1.PersistentVolume` as the loop and the webhook see it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "wire::VolumeJson")]
pub struct VolumeView {
    /// `metadata.name`; empty in an admission request with `generateName`.
    pub name: Arc<str>,
    /// `metadata.uid`; empty in an admission request for a creation.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: StringMap,
    /// Those of `metadata.annotations` that are read here.
    pub annotations: StringMap,
    /// True if `metadata.annotations` has any entry.
    pub has_annotations: bool,
    /// The source, if it is one that the contract knows.
    pub source: Option<VolumeSource>,
    /// `spec.nodeAffinity.required.nodeSelectorTerms`.
    pub node_terms: Box<[NodeTerm]>,
}

impl VolumeView {
    /// Returns true if an operator has paused it ([`ANNOTATION_PAUSED`]).
    pub fn is_paused(&self) -> bool {
        self.annotations.get(ANNOTATION_PAUSED) == Some("true")
    }

    /// Returns true if its node affinity takes more memory than [`LARGEST_AFFINITY`]: an entry without content takes two bytes of
    /// JSON and 50 in memory.
    fn is_affinity_too_large(&self) -> bool {
        let terms = self.node_terms.iter();
        let requirements =
            terms.flat_map(|term| term.match_expressions.iter().chain(&term.match_fields));
        let bytes = requirements.map(|requirement| {
            let values = requirement.values.iter();
            let values = values.map(|value| size_of_val(value) + value.len());
            let texts = requirement.key.len() + requirement.operator.len();
            size_of_val(requirement) + texts + values.sum::<usize>()
        });
        size_of_val(&*self.node_terms) + bytes.sum::<usize>() > LARGEST_AFFINITY
    }
}

/// One of the terms of a node affinity: a Node meets it that meets all of its requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeTerm {
    /// Requirements on labels.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<NodeRequirement>,
    /// Requirements on fields.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<NodeRequirement>,
}

/// A requirement on a label or field of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeRequirement {
    /// Label key, or path of the field.
    #[serde(deserialize_with = "or_default")]
    pub key: Box<str>,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    #[serde(deserialize_with = "or_default")]
    pub operator: Box<str>,
    /// Values that the operator is about.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Box<str>>,
}

impl NodeRequirement {
    /// One of `values` (P-30).
    pub fn within(key: &str, values: Vec<Box<str>>) -> Self {
        Self {
            key: key.into(),
            operator: "In".into(),
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{NodeRequirement, NodeTerm, VolumeSource, VolumeView};

    pub(super) fn view(volume: Value) -> VolumeView {
        serde_json::from_value(volume).unwrap()
    }

    pub(super) fn within(key: &str, values: &[&str]) -> NodeRequirement {
        NodeRequirement::within(key, values.iter().map(|value| (*value).into()).collect())
    }

    pub(super) fn all_of(requirements: impl Into<Vec<NodeRequirement>>) -> NodeTerm {
        NodeTerm {
            match_expressions: requirements.into(),
            ..NodeTerm::default()
        }
    }

    #[test]
    fn a_view_has_what_is_needed() {
        let volume = view(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": "pv", "uid": "u", "resourceVersion": "7",
                "labels": {"a": "b"},
                "annotations": {"pv.kubernetes.io/provisioned-by": "x", "other": "y"},
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {
                "capacity": {"storage": "1Gi"},
                "csi": {
                    "driver": "disk.example", "volumeHandle": "h",
                    "volumeAttributes": {"type": "fast"}, "fsType": "ext4",
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
                ]}},
            },
            "status": {"phase": "Bound"},
        }));
        assert_eq!((&*volume.name, &*volume.uid), ("pv", "u"));
        assert_eq!(volume.annotations.len(), 1);
        assert!(volume.has_annotations);
        let Some(VolumeSource::Csi { attributes, .. }) = &volume.source else {
            panic!("{volume:?}");
        };
        assert_eq!(attributes.get("type"), Some("fast"));
        assert_eq!(volume.node_terms[0], all_of([within("k", &["v"])]));
        // The API server wants them back so.
        let field = json!([{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]);
        assert_eq!(
            serde_json::to_value(&volume.node_terms[1..]).unwrap(),
            field
        );
    }

    /// P-22.
    #[test]
    fn every_source_of_the_contract_is_read() {
        let sources = [
            (
                json!({"awsElasticBlockStore": {"volumeID": "id", "fsType": "ext4"}}),
                "id",
            ),
            (json!({"gcePersistentDisk": {"pdName": "id"}}), "id"),
            (
                json!({"azureDisk": {"diskName": "id", "diskURI": "/x", "kind": "Managed"}}),
                "id",
            ),
            (json!({"cinder": {"volumeID": "id", "fsType": null}}), "id"),
            (
                json!({"vsphereVolume": {"volumePath": "id", "storagePolicyID": "p"}}),
                "id",
            ),
            (json!({"csi": {"driver": "d", "volumeHandle": "id"}}), "id"),
            (json!({"csi": {}}), ""),
        ];
        for (spec, id) in sources {
            let volume = view(json!({"metadata": {"name": "pv"}, "spec": spec}));
            assert_eq!(volume.source.unwrap().volume(), id, "{spec}");
        }
        for spec in [
            json!({"nfs": {"server": "s", "path": "/"}}),
            json!({"csi": null}),
            json!(null),
        ] {
            let volume = view(json!({"metadata": {"generateName": "pv-"}, "spec": spec}));
            assert_eq!((volume.source, &*volume.name), (None, ""), "{spec}");
        }
    }
}

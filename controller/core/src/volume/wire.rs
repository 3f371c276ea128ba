//! The parts of the API's JSON that a [`VolumeView`] is made of: the one source, and the annotations that are read.

use std::{collections::HashMap, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use super::{
    ANNOTATION_LABELLED, ANNOTATION_PAUSED, ANNOTATION_PROVISIONED_BY, InTreeKind, NodeTerm,
    VolumeSource, VolumeView,
};
use crate::{metadata::ObjectMetadata, null::or_default, string_map::StringMap};

const READ: [&str; 3] = [
    ANNOTATION_LABELLED,
    ANNOTATION_PAUSED,
    ANNOTATION_PROVISIONED_BY,
];

#[derive(Deserialize)]
pub(super) struct VolumeJson {
    metadata: ObjectMetadata<Option<Arc<str>>>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    csi: Option<Csi>,
    #[serde(deserialize_with = "or_default")]
    node_affinity: NodeAffinity,
    #[serde(flatten)]
    others: HashMap<Box<str>, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Csi {
    #[serde(deserialize_with = "or_default")]
    driver: Box<str>,
    #[serde(deserialize_with = "or_default")]
    volume_handle: Box<str>,
    volume_attributes: StringMap,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(deserialize_with = "or_default")]
    required: NodeSelector,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector {
    #[serde(deserialize_with = "or_default")]
    node_selector_terms: Box<[NodeTerm]>,
}

impl Spec {
    /// The API server takes one source only.
    fn source(&mut self) -> Option<VolumeSource> {
        if let Some(csi) = self.csi.take() {
            return Some(VolumeSource::Csi {
                driver: csi.driver,
                volume_handle: csi.volume_handle,
                attributes: csi.volume_attributes,
            });
        }
        InTreeKind::ALL.into_iter().find_map(|kind| {
            let disk = self.others.get(kind.field())?.as_object()?;
            let text = |field| disk.get(field).and_then(Value::as_str).unwrap_or_default();
            let texts = kind.texts().map(|field| text(field).into());
            Some(VolumeSource::InTree { kind, texts })
        })
    }
}

impl From<VolumeJson> for VolumeView {
    fn from(volume: VolumeJson) -> Self {
        let VolumeJson { metadata, mut spec } = volume;
        let source = spec.source();
        let annotations = metadata.annotations.iter();
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deleted: metadata.deletion_timestamp,
            labels: metadata.labels,
            has_annotations: !metadata.annotations.is_empty(),
            annotations: annotations.filter(|(key, _)| READ.contains(key)).collect(),
            source,
            node_terms: spec.node_affinity.required.node_selector_terms,
        }
    }
}

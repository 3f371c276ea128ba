//! The parts of the API's JSON that a view is made of.

use std::sync::Arc;

use serde::Deserialize;

use super::{
    ANNOTATION_LABELLED, ANNOTATION_PAUSED, ANNOTATION_PROVISIONED_BY, NodeTerm, VolumeSource,
    VolumeView,
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
    aws_elastic_block_store: Option<ById>,
    gce_persistent_disk: Option<GcePersistentDisk>,
    azure_disk: Option<AzureDisk>,
    cinder: Option<ById>,
    vsphere_volume: Option<VsphereVolume>,
    #[serde(deserialize_with = "or_default")]
    node_affinity: NodeAffinity,
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
struct ById {
    #[serde(rename = "volumeID", deserialize_with = "or_default")]
    volume_id: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GcePersistentDisk {
    #[serde(deserialize_with = "or_default")]
    pd_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AzureDisk {
    #[serde(deserialize_with = "or_default")]
    disk_name: Box<str>,
    #[serde(rename = "diskURI", deserialize_with = "or_default")]
    disk_uri: Box<str>,
    #[serde(deserialize_with = "or_default")]
    kind: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VsphereVolume {
    #[serde(deserialize_with = "or_default")]
    volume_path: Box<str>,
    #[serde(deserialize_with = "or_default")]
    storage_policy_name: Box<str>,
    #[serde(rename = "storagePolicyID", deserialize_with = "or_default")]
    storage_policy_id: Box<str>,
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
        if let Some(ById { volume_id }) = self.aws_elastic_block_store.take() {
            return Some(VolumeSource::AwsElasticBlockStore { volume_id });
        }
        if let Some(GcePersistentDisk { pd_name }) = self.gce_persistent_disk.take() {
            return Some(VolumeSource::GcePersistentDisk { pd_name });
        }
        if let Some(disk) = self.azure_disk.take() {
            return Some(VolumeSource::AzureDisk {
                disk_name: disk.disk_name,
                disk_uri: disk.disk_uri,
                kind: disk.kind,
            });
        }
        if let Some(ById { volume_id }) = self.cinder.take() {
            return Some(VolumeSource::Cinder { volume_id });
        }
        let disk = self.vsphere_volume.take()?;
        Some(VolumeSource::VsphereVolume {
            volume_path: disk.volume_path,
            storage_policy_name: disk.storage_policy_name,
            storage_policy_id: disk.storage_policy_id,
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

//! Volumes as the contract spells them.

use outrigger_api::v1::{self, volume_source::Source};
use outrigger_core::{
    node::labels::{REGION, REGION_BETA, ZONE, ZONE_BETA},
    volume::{InTreeKind, RawTopology, VolumeSource, VolumeView},
};

/// A volume of a request.
pub(super) fn volume(volume: &VolumeView) -> v1::Volume {
    let topology = [ZONE, REGION, ZONE_BETA, REGION_BETA].into_iter();
    let labels = topology.filter_map(|key| {
        let value = volume.labels.get(key)?;
        Some((key.to_owned(), value.to_owned()))
    });
    v1::Volume {
        name: volume.name.to_string(),
        source: volume.source.as_ref().map(|of| v1::VolumeSource {
            source: Some(source(of)),
        }),
        labels: labels.collect(),
    }
}

fn source(source: &VolumeSource) -> Source {
    match source {
        VolumeSource::Csi {
            driver,
            volume_handle,
            attributes,
        } => {
            let attributes = attributes.iter();
            Source::Csi(v1::CsiVolumeSource {
                driver: driver.to_string(),
                volume_handle: volume_handle.to_string(),
                volume_attributes: attributes
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
            })
        }
        VolumeSource::InTree { kind, texts } => {
            let [first, second, third] = texts.each_ref().map(ToString::to_string);
            match kind {
                InTreeKind::AwsElasticBlockStore => {
                    Source::AwsElasticBlockStore(v1::AwsElasticBlockStoreVolumeSource {
                        volume_id: first,
                    })
                }
                InTreeKind::GcePersistentDisk => {
                    Source::GcePersistentDisk(v1::GcePersistentDiskVolumeSource { pd_name: first })
                }
                InTreeKind::AzureDisk => Source::AzureDisk(v1::AzureDiskVolumeSource {
                    disk_name: first,
                    disk_uri: second,
                    kind: third,
                }),
                InTreeKind::Cinder => Source::Cinder(v1::CinderVolumeSource { volume_id: first }),
                InTreeKind::VsphereVolume => Source::VsphereVolume(v1::VsphereVolumeSource {
                    volume_path: first,
                    storage_policy_name: second,
                    storage_policy_id: third,
                }),
            }
        }
    }
}

/// An in-tree kind of the handshake; a value of a later minor is none.
pub(crate) fn kind(kind: v1::VolumeSourceKind) -> Option<InTreeKind> {
    match kind {
        v1::VolumeSourceKind::Unspecified => None,
        v1::VolumeSourceKind::AwsElasticBlockStore => Some(InTreeKind::AwsElasticBlockStore),
        v1::VolumeSourceKind::GcePersistentDisk => Some(InTreeKind::GcePersistentDisk),
        v1::VolumeSourceKind::AzureDisk => Some(InTreeKind::AzureDisk),
        v1::VolumeSourceKind::Cinder => Some(InTreeKind::Cinder),
        v1::VolumeSourceKind::VsphereVolume => Some(InTreeKind::VsphereVolume),
    }
}

/// A topology as it arrives, unchecked.
pub(super) fn raw(topology: v1::VolumeTopology) -> RawTopology {
    let terms = topology.node_terms.into_iter();
    RawTopology {
        labels: topology.labels.into_iter().collect(),
        node_terms: terms
            .map(|term| {
                let requirements = term.requirements.into_iter();
                requirements.map(|one| (one.key, one.values)).collect()
            })
            .collect(),
    }
}

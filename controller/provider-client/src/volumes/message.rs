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
        VolumeSource::AwsElasticBlockStore { volume_id } => {
            Source::AwsElasticBlockStore(v1::AwsElasticBlockStoreVolumeSource {
                volume_id: volume_id.to_string(),
            })
        }
        VolumeSource::GcePersistentDisk { pd_name } => {
            Source::GcePersistentDisk(v1::GcePersistentDiskVolumeSource {
                pd_name: pd_name.to_string(),
            })
        }
        VolumeSource::AzureDisk {
            disk_name,
            disk_uri,
            kind,
        } => Source::AzureDisk(v1::AzureDiskVolumeSource {
            disk_name: disk_name.to_string(),
            disk_uri: disk_uri.to_string(),
            kind: kind.to_string(),
        }),
        VolumeSource::Cinder { volume_id } => Source::Cinder(v1::CinderVolumeSource {
            volume_id: volume_id.to_string(),
        }),
        VolumeSource::VsphereVolume {
            volume_path,
            storage_policy_name,
            storage_policy_id,
        } => Source::VsphereVolume(v1::VsphereVolumeSource {
            volume_path: volume_path.to_string(),
            storage_policy_name: storage_policy_name.to_string(),
            storage_policy_id: storage_policy_id.to_string(),
        }),
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

use std::collections::HashMap;

use outrigger_api::v1::{self, volume_source::Source};

use crate::setters::setters;

/// A `v1.PersistentVolume`, as far as the contract carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Volume {
    /// `metadata.name`; empty while the API server has not generated it.
    pub name: String,
    /// Where the volume is.
    pub source: VolumeSource,
    /// Its labels of zone and region: a hint, where a disk's name is unique in its zone alone.
    pub labels: HashMap<String, String>,
}

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VolumeSource {
    /// `spec.csi`.
    #[non_exhaustive]
    Csi {
        /// One of [`VolumesCapability::csi_drivers`](crate::VolumesCapability::csi_drivers).
        driver: String,
        /// `volumeHandle`.
        volume_handle: String,
        /// `volumeAttributes`.
        volume_attributes: HashMap<String, String>,
    },
    /// `spec.awsElasticBlockStore`.
    #[non_exhaustive]
    AwsElasticBlockStore {
        /// `volumeID`: `vol-…` or `aws://zone/vol-…`.
        volume_id: String,
    },
    /// `spec.gcePersistentDisk`.
    #[non_exhaustive]
    GcePersistentDisk {
        /// `pdName`.
        pd_name: String,
    },
    /// `spec.azureDisk`.
    #[non_exhaustive]
    AzureDisk {
        /// `diskName`.
        disk_name: String,
        /// `diskURI`.
        disk_uri: String,
        /// `kind`: `Shared`, `Dedicated` or `Managed`.
        kind: String,
    },
    /// `spec.cinder`.
    #[non_exhaustive]
    Cinder {
        /// `volumeID`.
        volume_id: String,
    },
    /// `spec.vsphereVolume`.
    #[non_exhaustive]
    VsphereVolume {
        /// `volumePath`.
        volume_path: String,
        /// `storagePolicyName`.
        storage_policy_name: String,
        /// `storagePolicyID`.
        storage_policy_id: String,
    },
    /// A source that this crate does not know.
    Unknown,
}

/// In-tree kinds of a [`VolumeSource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VolumeSourceKind {
    /// [`VolumeSource::AwsElasticBlockStore`].
    AwsElasticBlockStore,
    /// [`VolumeSource::GcePersistentDisk`].
    GcePersistentDisk,
    /// [`VolumeSource::AzureDisk`].
    AzureDisk,
    /// [`VolumeSource::Cinder`].
    Cinder,
    /// [`VolumeSource::VsphereVolume`].
    VsphereVolume,
}

impl VolumeSourceKind {
    pub(super) fn into_wire(self) -> v1::VolumeSourceKind {
        match self {
            Self::AwsElasticBlockStore => v1::VolumeSourceKind::AwsElasticBlockStore,
            Self::GcePersistentDisk => v1::VolumeSourceKind::GcePersistentDisk,
            Self::AzureDisk => v1::VolumeSourceKind::AzureDisk,
            Self::Cinder => v1::VolumeSourceKind::Cinder,
            Self::VsphereVolume => v1::VolumeSourceKind::VsphereVolume,
        }
    }
}

impl Volume {
    /// A volume of a CSI driver, for tests of a vendor's handlers.
    pub fn of_csi(driver: impl Into<String>, volume_handle: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            source: VolumeSource::Csi {
                driver: driver.into(),
                volume_handle: volume_handle.into(),
                volume_attributes: HashMap::new(),
            },
            labels: HashMap::new(),
        }
    }

    /// Moves the message's fields.
    pub(crate) fn from_wire(wire: v1::Volume) -> Self {
        let wire_source = wire.source.and_then(|source| source.source);
        Self {
            name: wire.name,
            source: wire_source.map_or(VolumeSource::Unknown, source),
            labels: wire.labels,
        }
    }
}

setters! { Volume {
    with_name => name: String,
    with_labels => labels: HashMap<String, String>,
} }

fn source(wire: Source) -> VolumeSource {
    match wire {
        Source::Csi(csi) => VolumeSource::Csi {
            driver: csi.driver,
            volume_handle: csi.volume_handle,
            volume_attributes: csi.volume_attributes,
        },
        Source::AwsElasticBlockStore(disk) => VolumeSource::AwsElasticBlockStore {
            volume_id: disk.volume_id,
        },
        Source::GcePersistentDisk(disk) => VolumeSource::GcePersistentDisk {
            pd_name: disk.pd_name,
        },
        Source::AzureDisk(disk) => VolumeSource::AzureDisk {
            disk_name: disk.disk_name,
            disk_uri: disk.disk_uri,
            kind: disk.kind,
        },
        Source::Cinder(volume) => VolumeSource::Cinder {
            volume_id: volume.volume_id,
        },
        Source::VsphereVolume(disk) => VolumeSource::VsphereVolume {
            volume_path: disk.volume_path,
            storage_policy_name: disk.storage_policy_name,
            storage_policy_id: disk.storage_policy_id,
        },
    }
}

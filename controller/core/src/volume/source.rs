//! Where a volume is, and the providers that know about it.

use super::{ANNOTATION_LABELLED, VolumeView};
use crate::{digest::Encoder, string_map::StringMap};

/// Longest text of a source that is sent, in bytes.
const MAX_TEXT: usize = 1_024;
/// Bytes of all volume attributes that are sent.
const MAX_ATTRIBUTES: usize = 16 << 10;
/// Handle of a volume that is not made yet (P-23).
const PLACEHOLDER: &str = "placeholder-for-provisioning";

/// Sources of a volume that the contract has a message for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// `csi`.
    Csi {
        /// `driver`.
        driver: Box<str>,
        /// `volumeHandle`.
        volume_handle: Box<str>,
        /// `volumeAttributes`.
        attributes: StringMap,
    },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore {
        /// `volumeID`.
        volume_id: Box<str>,
    },
    /// `gcePersistentDisk`.
    GcePersistentDisk {
        /// `pdName`.
        pd_name: Box<str>,
    },
    /// `azureDisk`.
    AzureDisk {
        /// `diskName`.
        disk_name: Box<str>,
        /// `diskURI`.
        disk_uri: Box<str>,
        /// `kind`.
        kind: Box<str>,
    },
    /// `cinder`.
    Cinder {
        /// `volumeID`.
        volume_id: Box<str>,
    },
    /// `vsphereVolume`.
    VsphereVolume {
        /// `volumePath`.
        volume_path: Box<str>,
        /// `storagePolicyName`.
        storage_policy_name: Box<str>,
        /// `storagePolicyID`.
        storage_policy_id: Box<str>,
    },
}

/// In-tree kinds of a [`VolumeSource`] (P-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InTreeKind {
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

impl VolumeSource {
    /// The kind, as an in-tree one; none for CSI.
    const fn in_tree(&self) -> Option<InTreeKind> {
        match self {
            Self::Csi { .. } => None,
            Self::AwsElasticBlockStore { .. } => Some(InTreeKind::AwsElasticBlockStore),
            Self::GcePersistentDisk { .. } => Some(InTreeKind::GcePersistentDisk),
            Self::AzureDisk { .. } => Some(InTreeKind::AzureDisk),
            Self::Cinder { .. } => Some(InTreeKind::Cinder),
            Self::VsphereVolume { .. } => Some(InTreeKind::VsphereVolume),
        }
    }

    /// Its name in digests.
    const fn name(&self) -> &'static str {
        match self {
            Self::Csi { .. } => "csi",
            Self::AwsElasticBlockStore { .. } => "awsElasticBlockStore",
            Self::GcePersistentDisk { .. } => "gcePersistentDisk",
            Self::AzureDisk { .. } => "azureDisk",
            Self::Cinder { .. } => "cinder",
            Self::VsphereVolume { .. } => "vsphereVolume",
        }
    }

    /// Its texts but the attributes, the one that names the volume first.
    fn texts(&self) -> [&str; 3] {
        match self {
            Self::Csi {
                driver,
                volume_handle,
                ..
            } => [volume_handle, driver, ""],
            Self::AwsElasticBlockStore { volume_id } | Self::Cinder { volume_id } => {
                [volume_id, "", ""]
            }
            Self::GcePersistentDisk { pd_name } => [pd_name, "", ""],
            Self::AzureDisk {
                disk_name,
                disk_uri,
                kind,
            } => [disk_name, disk_uri, kind],
            Self::VsphereVolume {
                volume_path,
                storage_policy_name,
                storage_policy_id,
            } => [volume_path, storage_policy_name, storage_policy_id],
        }
    }

    /// The handle, or the name of the disk.
    pub fn volume(&self) -> &str {
        let [volume, ..] = self.texts();
        volume
    }

    /// Returns true if the volume is not made yet.
    pub(super) fn is_placeholder(&self) -> bool {
        self.volume() == PLACEHOLDER
    }

    /// Returns true if the source breaks a limit of the contract.
    pub(super) fn is_too_long(&self) -> bool {
        let attributes = match self {
            Self::Csi { attributes, .. } => attributes.iter().map(|(k, v)| k.len() + v.len()).sum(),
            _ => 0,
        };
        attributes > MAX_ATTRIBUTES || self.texts().iter().any(|text| text.len() > MAX_TEXT)
    }
}

/// The volumes that a provider knows about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedVolumes {
    /// Name of the provider.
    pub provider: Box<str>,
    /// Its CSI drivers.
    pub csi_drivers: Box<[Box<str>]>,
    /// Its in-tree kinds.
    pub kinds: Box<[InTreeKind]>,
}

impl ServedVolumes {
    /// Returns true if the provider is asked about volumes of this source.
    pub fn serves(&self, source: &VolumeSource) -> bool {
        match (source.in_tree(), source) {
            (Some(kind), _) => self.kinds.contains(&kind),
            (None, VolumeSource::Csi { driver, .. }) => self.csi_drivers.contains(driver),
            (None, _) => false,
        }
    }

    /// The value of [`ANNOTATION_LABELLED`] for `source`. Stored with volumes and compared by later
    /// releases: another encoding asks about every volume once more.
    pub(super) fn mark(&self, source: &VolumeSource) -> Box<str> {
        let mut encoder = Encoder::new("outrigger volume 1");
        encoder.text(source.name());
        encoder.texts(&source.texts());
        if let VolumeSource::Csi { attributes, .. } = source {
            encoder.list(attributes.iter(), |encoder, (key, value)| {
                encoder.text(key);
                encoder.text(value);
            });
        }
        format!("{}/{}", self.provider, encoder.finish()).into()
    }

    /// Returns true if `volume` was labelled from this source by this provider's answer.
    pub(super) fn has_labelled(&self, volume: &VolumeView, source: &VolumeSource) -> bool {
        volume.annotations.get(ANNOTATION_LABELLED) == Some(&*self.mark(source))
    }
}

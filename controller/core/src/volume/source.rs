//! Where a volume is, and the providers that know about it.
//!
//! [`ServedVolumes`] comes from the handshake. The mark that a labelled volume gets is made from the source, so that a
//! volume whose source is the same is not asked about again.

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
    /// A source of an in-tree plugin.
    InTree {
        /// Its kind.
        kind: InTreeKind,
        /// Its texts, in the order of [`InTreeKind::texts`]; the others are empty.
        texts: [Box<str>; 3],
    },
}

/// In-tree kinds of a [`VolumeSource`] (P-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InTreeKind {
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore,
    /// `gcePersistentDisk`.
    GcePersistentDisk,
    /// `azureDisk`.
    AzureDisk,
    /// `cinder`.
    Cinder,
    /// `vsphereVolume`.
    VsphereVolume,
}

impl InTreeKind {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [
        Self::AwsElasticBlockStore,
        Self::GcePersistentDisk,
        Self::AzureDisk,
        Self::Cinder,
        Self::VsphereVolume,
    ];

    /// Its field in `spec`, and its name in digests.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::AwsElasticBlockStore => "awsElasticBlockStore",
            Self::GcePersistentDisk => "gcePersistentDisk",
            Self::AzureDisk => "azureDisk",
            Self::Cinder => "cinder",
            Self::VsphereVolume => "vsphereVolume",
        }
    }

    /// Its fields that are texts; the first names the volume.
    pub(super) const fn texts(self) -> [&'static str; 3] {
        match self {
            Self::AwsElasticBlockStore | Self::Cinder => ["volumeID", "", ""],
            Self::GcePersistentDisk => ["pdName", "", ""],
            Self::AzureDisk => ["diskName", "diskURI", "kind"],
            Self::VsphereVolume => ["volumePath", "storagePolicyName", "storagePolicyID"],
        }
    }
}

impl VolumeSource {
    /// Its name in digests.
    const fn name(&self) -> &'static str {
        match self {
            Self::Csi { .. } => "csi",
            Self::InTree { kind, .. } => kind.field(),
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
            Self::InTree { texts, .. } => texts.each_ref().map(|text| &**text),
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
            Self::InTree { .. } => 0,
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
        match source {
            VolumeSource::Csi { driver, .. } => self.csi_drivers.contains(driver),
            VolumeSource::InTree { kind, .. } => self.kinds.contains(kind),
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

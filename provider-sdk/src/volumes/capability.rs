use outrigger_api::v1;

use super::VolumeSourceKind;
use crate::setters::setters;

/// Which volumes are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumesCapability {
    /// CSI drivers, as in `spec.csi.driver`; at most 64.
    pub csi_drivers: Vec<String>,
    /// In-tree kinds.
    pub source_kinds: Vec<VolumeSourceKind>,
    /// Volumes in one lookup, 1 to 500. Default 100.
    pub max_batch_size: u32,
    /// Lookups at one time, at most 64; 0 leaves it to the controller (4).
    pub max_in_flight: u32,
    /// Calls of [`get_volume`](crate::Volumes::get_volume) at one time in one batch. Not sent; a provider
    /// with its own [`get_volumes`](crate::Volumes::get_volumes) ignores it. Default 8; 0 is 1.
    pub concurrency: usize,
}

impl Default for VolumesCapability {
    fn default() -> Self {
        Self {
            csi_drivers: Vec::new(),
            source_kinds: Vec::new(),
            max_batch_size: 100,
            max_in_flight: 0,
            concurrency: 8,
        }
    }
}

impl VolumesCapability {
    pub(crate) fn to_wire(&self) -> v1::VolumesCapability {
        let kinds = self.source_kinds.iter();
        v1::VolumesCapability {
            csi_drivers: self.csi_drivers.clone(),
            source_kinds: kinds.map(|kind| kind.into_wire().into()).collect(),
            max_batch_size: self.max_batch_size,
            max_in_flight: self.max_in_flight,
        }
    }
}

setters! { VolumesCapability {
    with_csi_drivers => csi_drivers: Vec<String>,
    with_source_kinds => source_kinds: Vec<VolumeSourceKind>,
} }

setters! { plain VolumesCapability {
    with_max_batch_size => max_batch_size: u32,
    with_max_in_flight => max_in_flight: u32,
    with_concurrency => concurrency: usize,
} }

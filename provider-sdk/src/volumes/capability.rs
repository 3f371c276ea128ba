use outrigger_api::v1;

use super::VolumeSourceKind;
use crate::setters::setters;

/// Which volumes are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumesCapability {
    /// CSI drivers, as in `spec.csi.driver`; at most 64.
    pub csi_drivers: Vec<String>,
    /// In-tree kinds.
    pub source_kinds: Vec<VolumeSourceKind>,
    /// Lookups at one time, at most 256; 0 leaves it to the controller (16).
    pub max_in_flight: u32,
}

impl VolumesCapability {
    pub(crate) fn to_wire(&self) -> v1::VolumesCapability {
        let kinds = self.source_kinds.iter();
        v1::VolumesCapability {
            csi_drivers: self.csi_drivers.clone(),
            source_kinds: kinds.map(|kind| kind.into_wire().into()).collect(),
            max_in_flight: self.max_in_flight,
        }
    }
}

setters! { VolumesCapability {
    with_csi_drivers => csi_drivers: Vec<String>,
    with_source_kinds => source_kinds: Vec<VolumeSourceKind>,
} }

setters! { plain VolumesCapability {
    with_max_in_flight => max_in_flight: u32,
} }

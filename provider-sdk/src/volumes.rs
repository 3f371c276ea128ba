//! Volumes of the cloud: where they can be used.

mod capability;
mod lookup;
mod volume;

use std::future::Future;

use crate::{Context, Error};

pub use capability::VolumesCapability;
pub use lookup::{NodeRequirement, NodeTerm, VolumeLookup, VolumeTopology};
pub use volume::{Volume, VolumeSource, VolumeSourceKind};

/// Looks up volumes: labels and node affinity of those that no provisioner made. Nothing here
/// changes the cloud.
///
/// Methods may be written as `async fn`.
pub trait Volumes: Send + Sync + 'static {
    /// Which volumes are looked up. The same for the life of the process; asked when the server starts.
    fn capability(&self) -> VolumesCapability;

    /// Looks up one volume. A handle that no volume of this cloud could have is
    /// [`Error::malformed_volume_handle`].
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn get_volume(
        &self,
        ctx: &Context,
        volume: &Volume,
    ) -> impl Future<Output = Result<VolumeLookup, Error>> + Send;
}

//! Volumes of the cloud: where they can be used.

mod capability;
mod lookup;
mod volume;

use std::collections::HashMap;
use std::future::Future;

use crate::each::look_up_each;
use crate::{Context, Error};

pub use capability::VolumesCapability;
pub use lookup::{NodeRequirement, NodeTerm, VolumeLookup, VolumeTopology};
pub use volume::{Volume, VolumeSource, VolumeSourceKind};

/// Results of a batch by [`Volume::key`].
pub type VolumeLookups = HashMap<String, Result<VolumeLookup, Error>>;

/// Looks up volumes: labels and node affinity of those that no provisioner made. Nothing here
/// changes the cloud.
///
/// Methods may be written as `async fn`.
pub trait Volumes: Send + Sync + 'static {
    /// Which volumes are looked up. The same for the life of the process; asked when the server starts and
    /// by the default [`get_volumes`](Self::get_volumes).
    fn capability(&self) -> VolumesCapability;

    /// Looks up one volume. A handle that no volume of this cloud could have is
    /// [`Error::malformed_volume_handle`].
    ///
    /// # Cancellation
    ///
    /// Called by the default [`get_volumes`](Self::get_volumes), it is dropped at its next `await` when
    /// the caller goes away.
    fn get_volume(
        &self,
        ctx: &Context,
        volume: &Volume,
    ) -> impl Future<Output = Result<VolumeLookup, Error>> + Send;

    /// Looks up many volumes: for a cloud where one call answers many ids.
    ///
    /// `volumes` has 1 to [`VolumesCapability::max_batch_size`] volumes with distinct keys. An `Err` of the
    /// whole is the error of each. A volume that is missing from the result is reported as failed, a result
    /// for a volume that was not asked about is dropped; both are logged.
    ///
    /// The default calls [`get_volume`](Self::get_volume) for each, at most
    /// [`VolumesCapability::concurrency`] at a time; a panic concerns its own volume only. Once the cloud
    /// limits the rate, refuses the credentials or is away, the volumes that were not asked about yet get
    /// that error too.
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn get_volumes(
        &self,
        ctx: &Context,
        volumes: &[Volume],
    ) -> impl Future<Output = Result<VolumeLookups, Error>> + Send {
        let concurrency = self.capability().concurrency;
        let look_up = move |volume| self.get_volume(ctx, volume);
        look_up_each(ctx, volumes, concurrency, |volume| &volume.key, look_up)
    }
}

//! [`Volumes`]: the zones in which a volume can be used, for volumes that no provisioner made.
//!
//! The server calls it for `GetVolume`, which the controller's admission webhook and its loop persistentvolume-labels call.
//! A provider without them registers none.

use std::future::Future;

use outrigger_api::v1;

use crate::{Context, Error, Outcome};

/// Looks up volumes: labels and node affinity of those that no provisioner made. Nothing here
/// changes the cloud.
///
/// Methods may be written as `async fn`.
pub trait Volumes: Send + Sync + 'static {
    /// Which volumes are looked up. The same for the life of the process; asked when the server starts.
    fn capability(&self) -> v1::VolumesCapability;

    /// Looks up one volume. A handle that no volume of this cloud could have is
    /// [`Error::malformed_volume_handle`].
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn get_volume(
        &self,
        ctx: &Context,
        volume: &v1::Volume,
    ) -> impl Future<Output = Result<Outcome<v1::VolumeTopology>, Error>> + Send;
}

//! Lookups of volumes, for the admission webhook and the loop persistentvolume-labels.

use std::sync::Arc;

use outrigger_core::volume::{ServedVolumes, VolumeTopology, VolumeView};
use tokio::sync::mpsc;

use super::{Error, Provider, batch::ask};

mod message;
mod pending;
mod results;

pub(super) use message::kind;

use pending::METHOD;
pub(super) use pending::{PendingVolume, WaitingVolumes};

/// The purpose of a lookup of a volume. Those of one purpose share calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumePurpose {
    /// The API server waits for an answer about a volume that is being created.
    Admission,
    /// The volume exists.
    Labels,
}

/// The provider's answer about a volume, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeLookup {
    /// It exists.
    Found(VolumeTopology),
    /// There is no such volume.
    Absent {
        /// For people; may be empty.
        reason: Box<str>,
    },
    /// Another provider's, or none's.
    NotManaged {
        /// For logs.
        reason: Box<str>,
    },
}

/// How volumes are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumesCapability {
    /// The part that decides about a volume.
    pub served: Arc<ServedVolumes>,
    /// Volumes in one call, 1 to 500.
    pub max_batch_size: usize,
    /// Calls at one time, 1 to 64.
    pub max_in_flight: usize,
}

/// Where lookups are sent to, by purpose.
#[derive(Clone)]
pub(super) struct VolumeLookups {
    admission: mpsc::UnboundedSender<PendingVolume>,
    labels: mpsc::UnboundedSender<PendingVolume>,
}

impl VolumeLookups {
    /// The senders, and the receivers of each purpose.
    pub(super) fn channels() -> (
        Self,
        [(VolumePurpose, mpsc::UnboundedReceiver<PendingVolume>); 2],
    ) {
        // Callers are bounded by the keys that their loop has in flight, and by the webhook's requests.
        let (admission, admitted) = mpsc::unbounded_channel();
        let (labels, labelled) = mpsc::unbounded_channel();
        let receivers = [
            (VolumePurpose::Admission, admitted),
            (VolumePurpose::Labels, labelled),
        ];
        (Self { admission, labels }, receivers)
    }
}

impl Provider {
    /// Waits until there is a provider that serves volumes; `without` is called once if one does not, for
    /// the next process behind the socket may.
    pub async fn serving_volumes(&self, without: impl FnOnce()) {
        self.offering(|session| session.volumes.is_some(), without)
            .await;
    }

    /// Looks up a volume, in one call with others of the same purpose that wait at the same time. Changes
    /// nothing in the cloud. Waits while calls about volumes are paused.
    ///
    /// Dropping the future withdraws the lookup; a call that no caller waits for any more is cancelled. The
    /// stop withdraws a lookup that has not gone out.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn look_up_volume(
        &self,
        volume: Arc<VolumeView>,
        purpose: VolumePurpose,
    ) -> Result<VolumeLookup, Error> {
        let pending = |caller| PendingVolume {
            volume,
            purpose,
            preconditions: self.preconditions.without_check(),
            caller,
        };
        let lookups = match purpose {
            VolumePurpose::Admission => &self.volumes.admission,
            VolumePurpose::Labels => &self.volumes.labels,
        };
        let rpc = METHOD.name;
        ask(lookups, pending, &self.preconditions, rpc, Err).await
    }
}

//! Lookups of volumes, for the admission webhook and the loop persistentvolume-labels.

use std::sync::Arc;

use outrigger_api::{
    MethodRequest,
    v1::{self, AbsenceCertainty, ErrorReason, volume_result::Outcome},
};
use outrigger_core::{
    text,
    volume::{ServedVolumes, VolumeTopology, VolumeView},
};

use super::{
    Error, Provider, Session,
    admission::Urgency,
    batch::{AnsweredCall, BatchObject, GatheredObject, Twin, ask},
    metrics::ProviderMetrics,
    wire,
};

mod message;

pub(super) use message::kind;

const RPC: &str = v1::BatchGetVolumesRequest::METHOD.name;

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

/// A volume that is looked up.
pub(super) struct VolumeQuestion {
    volume: Arc<VolumeView>,
    purpose: VolumePurpose,
}

impl BatchObject for VolumeQuestion {
    type Request = v1::BatchGetVolumesRequest;
    type Found = VolumeLookup;

    fn message(&self, _: &Session, place: usize) -> v1::Volume {
        message::volume(&self.volume, place)
    }

    fn read(&self, outcome: Outcome, call: &AnsweredCall<'_>) -> Result<VolumeLookup, Error> {
        let said = |reason: &str| text::message(reason).into();
        match outcome {
            Outcome::Found(topology) => {
                let checked = message::raw(topology).check();
                let checked = checked.map_err(|fault| Error::malformed(RPC, &fault.to_string()))?;
                Ok(VolumeLookup::Found(checked))
            }
            Outcome::Absent(absent) => {
                let doubt = wire::doubt(&absent, call.took);
                if doubt.is_none() && absent.certainty() == AbsenceCertainty::Confirmed {
                    let reason = said(&absent.reason);
                    return Ok(VolumeLookup::Absent { reason });
                }
                let why = doubt.unwrap_or(absent.reason);
                Err(Error::Refused {
                    rpc: RPC,
                    reason: ErrorReason::DependencyNotReady,
                    message: text::message(&format!("the volume may exist: {why}")).into(),
                    retry_after: None,
                    effects: None,
                })
            }
            Outcome::NotManaged(not_managed) => Ok(VolumeLookup::NotManaged {
                reason: said(&not_managed.reason),
            }),
            Outcome::Error(status) => Err(Error::malformed(RPC, &status.message)),
        }
    }
}

impl GatheredObject for VolumeQuestion {
    type Group = VolumePurpose;

    const KIND: &'static str = "volume";

    fn group(&self) -> VolumePurpose {
        self.purpose
    }

    fn name(&self) -> &Arc<str> {
        &self.volume.name
    }

    /// A volume that is being created may have no name yet.
    fn twin(&self, _: &Self) -> Twin {
        Twin::Joins
    }

    fn most(session: &Session) -> Option<usize> {
        let offered = session.volumes.as_ref();
        offered.map(|volumes| volumes.max_batch_size)
    }

    fn urgency(purpose: VolumePurpose) -> Urgency {
        purpose.into()
    }

    /// Not where a request to the API server waits.
    fn is_gathered(purpose: VolumePurpose) -> bool {
        purpose != VolumePurpose::Admission
    }

    fn count(_: VolumePurpose, metrics: &ProviderMetrics, volumes: usize) {
        metrics.volumes_batched(volumes);
    }
}

/// Calls about volumes.
#[derive(Clone, Copy)]
pub struct Volumes<'a>(pub(super) &'a Provider);

impl Volumes<'_> {
    /// Waits until there is a provider that serves volumes; `without` is called once if one does not, for
    /// the next process behind the socket may.
    pub async fn wait_until_serving(self, without: impl FnOnce()) {
        self.0
            .offering(|session| session.volumes.is_some(), without)
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
    pub async fn look_up(
        self,
        volume: Arc<VolumeView>,
        purpose: VolumePurpose,
    ) -> Result<VolumeLookup, Error> {
        let lookups = &self.0.volume_lookups[purpose as usize];
        let question = VolumeQuestion { volume, purpose };
        let preconditions = self.0.preconditions.without_check();
        ask(lookups, question, preconditions).await.result
    }
}

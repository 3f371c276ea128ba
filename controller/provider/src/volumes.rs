//! Lookups of volumes, for the admission webhook and the loop persistentvolume-labels.

use std::{sync::Arc, time::Duration};

use outrigger_api::{
    MethodRequest,
    v1::{self, AbsenceCertainty, ErrorReason, get_volume_response::Outcome},
};
use outrigger_core::{
    text,
    volume::{ServedVolumes, VolumeTopology, VolumeView},
};
use tokio::time::Instant;

use super::{Error, Provider, Session, wire};

mod message;

pub(super) use message::kind;

const RPC: &str = v1::GetVolumeRequest::METHOD.name;

/// The purpose of a lookup of a volume.
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
    /// Calls at one time, 1 to 256.
    pub max_in_flight: usize,
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

    /// Looks up a volume. Changes nothing in the cloud. Waits while calls about volumes are paused. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn look_up(
        self,
        volume: &VolumeView,
        purpose: VolumePurpose,
    ) -> Result<VolumeLookup, Error> {
        let (permit, session) = self.0.admit::<v1::GetVolumeRequest>(purpose.into()).await?;
        let request = |_: &Session| v1::GetVolumeRequest {
            context: None,
            volume: Some(message::volume(volume)),
        };
        let began = Instant::now();
        let (shared, preconditions) = (&self.0.shared, &self.0.preconditions);
        let call = shared.call(&permit, preconditions, &session, request);
        read(call.await?.outcome, began.elapsed())
    }
}

/// The outcome of a call that took so long.
fn read(outcome: Option<Outcome>, took: Duration) -> Result<VolumeLookup, Error> {
    let said = |reason: &str| text::message(reason).into();
    match outcome {
        Some(Outcome::Found(topology)) => {
            let checked = message::raw(topology).check();
            let checked = checked.map_err(|fault| Error::malformed(RPC, &fault.to_string()))?;
            Ok(VolumeLookup::Found(checked))
        }
        Some(Outcome::Absent(absent)) => {
            let doubt = wire::doubt(&absent, took);
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
        Some(Outcome::NotManaged(not_managed)) => Ok(VolumeLookup::NotManaged {
            reason: said(&not_managed.reason),
        }),
        None => Err(Error::malformed(RPC, "an answer without an outcome")),
    }
}

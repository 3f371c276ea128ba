//! The decision about a new volume: core's, with this replica's provider (P-20 to P-32).

use futures::{FutureExt, future::BoxFuture};
use outrigger_core::{
    error_class::ErrorClass,
    volume::{Stage, VolumeDecision, VolumeStep, VolumeView, plan, step},
};
use serde_json::value::RawValue;

use super::{AdmissionVerdict, Reviewer};
use outrigger_kube::volumes;
use outrigger_provider::{Error, Provider, VolumeLookup, VolumePurpose};

/// Reviews new volumes. A standby asks its own provider: a lookup changes nothing.
pub struct VolumeReviewer {
    provider: Provider,
}

impl VolumeReviewer {
    /// `provider` without a condition that only the leader meets.
    pub fn new(provider: Provider) -> Self {
        Self { provider }
    }

    async fn decide(&self, volume: VolumeView) -> Result<AdmissionVerdict, String> {
        let session = self.provider.session();
        let state = self.provider.state();
        let Some(session) = session.filter(|_| state.borrow().serves()) else {
            return Err(format!("the provider does not serve: {}", *state.borrow()));
        };
        let Some(served) = session.volumes.as_ref().map(|volumes| &volumes.served) else {
            return Ok(AdmissionVerdict::Admit(Vec::new()));
        };
        let decision = match step(&volume, served, Stage::Admission) {
            VolumeStep::Leave(_) => return Ok(AdmissionVerdict::Admit(Vec::new())),
            VolumeStep::Decide(decision) => decision,
            VolumeStep::Ask => {
                let purpose = VolumePurpose::Admission;
                match self.provider.volumes().look_up(&volume, purpose).await {
                    Ok(VolumeLookup::Found(topology)) => {
                        plan(&volume, &topology, served, Stage::Admission)
                    }
                    Ok(VolumeLookup::NotManaged { .. }) => {
                        return Ok(AdmissionVerdict::Admit(Vec::new()));
                    }
                    Ok(VolumeLookup::Absent { reason }) => {
                        return Ok(AdmissionVerdict::Refuse(absent(&volume, &reason)));
                    }
                    Err(error) => return refused(&error),
                }
            }
        };
        Ok(match decision {
            VolumeDecision::Write { patch, .. } => {
                AdmissionVerdict::Admit(volumes::operations(&volume, &patch))
            }
            VolumeDecision::Refuse(problem) => AdmissionVerdict::Refuse(problem.to_string()),
        })
    }
}

fn absent(volume: &VolumeView, reason: &str) -> String {
    let handle = volume.source.as_ref().map_or("", |source| source.volume());
    let colon = if reason.is_empty() { "" } else { ": " };
    format!("there is no volume {handle:?} in the cloud{colon}{reason}")
}

/// Only an error about the volume itself refuses it; any other leaves it to `failurePolicy` (P-24).
fn refused(error: &Error) -> Result<AdmissionVerdict, String> {
    match error.class() {
        ErrorClass::Invalid => Ok(AdmissionVerdict::Refuse(error.to_string())),
        _ => Err(error.to_string()),
    }
}

impl Reviewer for VolumeReviewer {
    fn review(&self, object: Box<RawValue>) -> BoxFuture<'_, Result<AdmissionVerdict, String>> {
        let volume = serde_json::from_str(object.get());
        drop(object);
        async move {
            let volume = volume.map_err(|error| format!("the volume cannot be read: {error}"))?;
            self.decide(volume).await
        }
        .boxed()
    }
}

//! Lookups of volumes, for the admission webhook and the loop persistentvolume-labels.
//!
//! An answer is checked by `outrigger-core`; a volume that the provider does not know is an answer, and a failed lookup an
//! error.

use std::{sync::Arc, time::Duration};

use outrigger_api::{
    MethodRequest,
    v1::{
        self, AbsenceCertainty, ErrorReason, get_volume_response::Outcome, volume_source::Source,
    },
};
use outrigger_core::{
    node::labels::{REGION, REGION_BETA, ZONE, ZONE_BETA},
    text,
    volume::{InTreeKind, RawTopology, ServedVolumes, VolumeSource, VolumeTopology, VolumeView},
};
use tokio::time::Instant;

use super::{Error, Provider, wire};

const RPC: &str = v1::GetVolumeRequest::METHOD.name;

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
    /// Looks up a volume. Changes nothing in the cloud. Waits while calls about volumes are paused. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    /// Any [`Error`].
    pub async fn look_up(self, volume: &VolumeView) -> Result<VolumeLookup, Error> {
        let caller = &self.0.caller;
        let slot = caller.admit::<v1::GetVolumeRequest>().await?;
        let request = v1::GetVolumeRequest {
            context: None,
            volume: Some(wire_volume(volume)),
        };
        let began = Instant::now();
        let answer = caller.call(&slot, request).await?;
        read(answer.outcome, began.elapsed())
    }
}

/// The outcome of a call that took so long.
fn read(outcome: Option<Outcome>, took: Duration) -> Result<VolumeLookup, Error> {
    let said = |reason: &str| text::message(reason).into();
    match outcome {
        Some(Outcome::Found(topology)) => {
            let checked = raw(topology).check();
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

/// A volume of a request.
fn wire_volume(volume: &VolumeView) -> v1::Volume {
    let topology = [ZONE, REGION, ZONE_BETA, REGION_BETA].into_iter();
    let labels = topology.filter_map(|key| {
        let value = volume.labels.get(key)?;
        Some((key.to_owned(), value.to_owned()))
    });
    v1::Volume {
        name: volume.name.to_string(),
        source: volume.source.as_ref().map(|of| v1::VolumeSource {
            source: Some(source(of)),
        }),
        labels: labels.collect(),
    }
}

fn source(source: &VolumeSource) -> Source {
    match source {
        VolumeSource::Csi {
            driver,
            volume_handle,
            attributes,
        } => {
            let attributes = attributes.iter();
            Source::Csi(v1::CsiVolumeSource {
                driver: driver.to_string(),
                volume_handle: volume_handle.to_string(),
                volume_attributes: attributes
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
            })
        }
        VolumeSource::InTree { kind, texts } => {
            let [first, second, third] = texts.each_ref().map(ToString::to_string);
            match kind {
                InTreeKind::AwsElasticBlockStore => {
                    Source::AwsElasticBlockStore(v1::AwsElasticBlockStoreVolumeSource {
                        volume_id: first,
                    })
                }
                InTreeKind::GcePersistentDisk => {
                    Source::GcePersistentDisk(v1::GcePersistentDiskVolumeSource { pd_name: first })
                }
                InTreeKind::AzureDisk => Source::AzureDisk(v1::AzureDiskVolumeSource {
                    disk_name: first,
                    disk_uri: second,
                    kind: third,
                }),
                InTreeKind::Cinder => Source::Cinder(v1::CinderVolumeSource { volume_id: first }),
                InTreeKind::VsphereVolume => Source::VsphereVolume(v1::VsphereVolumeSource {
                    volume_path: first,
                    storage_policy_name: second,
                    storage_policy_id: third,
                }),
            }
        }
    }
}

/// An in-tree kind of the handshake; a value of a later minor is none.
pub(super) fn kind(kind: v1::VolumeSourceKind) -> Option<InTreeKind> {
    match kind {
        v1::VolumeSourceKind::Unspecified => None,
        v1::VolumeSourceKind::AwsElasticBlockStore => Some(InTreeKind::AwsElasticBlockStore),
        v1::VolumeSourceKind::GcePersistentDisk => Some(InTreeKind::GcePersistentDisk),
        v1::VolumeSourceKind::AzureDisk => Some(InTreeKind::AzureDisk),
        v1::VolumeSourceKind::Cinder => Some(InTreeKind::Cinder),
        v1::VolumeSourceKind::VsphereVolume => Some(InTreeKind::VsphereVolume),
    }
}

/// A topology as it arrives, unchecked.
fn raw(topology: v1::VolumeTopology) -> RawTopology {
    let terms = topology.node_terms.into_iter();
    RawTopology {
        labels: topology.labels.into_iter().collect(),
        node_terms: terms
            .map(|term| {
                let requirements = term.requirements.into_iter();
                requirements.map(|one| (one.key, one.values)).collect()
            })
            .collect(),
    }
}

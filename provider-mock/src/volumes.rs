//! The volumes of the fake cloud.

use std::fmt;

use clap::{Args, ValueEnum};
use outrigger_api::v1::volume_source::Source;
use outrigger_provider_sdk as sdk;
use outrigger_provider_sdk::{
    Context, Error, VolumeLookup, VolumeSource, VolumeSourceKind, VolumeTopology, Volumes,
    VolumesCapability,
};
use serde::{Deserialize, Serialize};

use crate::choice;
use crate::provider::MockProvider;

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Volume {
    /// Its CSI handle, or the name or id of the disk
    pub handle: String,
    /// Its region [default: none]
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// A zone that it can be used in; may be repeated [default: each]
    #[arg(long = "zone", value_name = "ZONE")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// How it answers
    #[arg(long, default_value = "available", value_name = "STATE")]
    #[serde(default)]
    pub state: VolumeState,
}

/// How a volume answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeState {
    /// It is found.
    #[default]
    Available,
    /// It is of another account.
    Foreign,
    /// The cloud fails for it.
    Failing,
    /// It may not be visible yet.
    Hidden,
}

impl fmt::Display for VolumeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&choice::name(self))
    }
}

impl Volumes for MockProvider {
    fn capability(&self) -> VolumesCapability {
        let served = self.options().volumes.as_ref();
        let kinds = [
            VolumeSourceKind::AwsElasticBlockStore,
            VolumeSourceKind::GcePersistentDisk,
            VolumeSourceKind::AzureDisk,
            VolumeSourceKind::Cinder,
            VolumeSourceKind::VsphereVolume,
        ];
        let capability = VolumesCapability::default()
            .with_concurrency(self.cloud().config().parallel_calls.get());
        let Some(served) = served else {
            return capability;
        };
        let in_tree = served.in_tree.then(|| kinds.to_vec());
        capability
            .with_csi_drivers(served.csi_drivers.as_slice())
            .with_source_kinds(in_tree.unwrap_or_default())
            .with_max_batch_size(served.max_batch_size)
    }

    async fn get_volume(&self, ctx: &Context, volume: &sdk::Volume) -> Result<VolumeLookup, Error> {
        let cloud = self.cloud();
        cloud.count().items_asked("BatchGetVolumes", 1);
        let handle = handle(&volume.source);
        if is_malformed(handle) {
            return Err(Error::malformed_volume_handle(malformed(handle)));
        }
        let found = tokio::select! {
            () = ctx.cancelled() => return Err(Error::cancelled()),
            found = cloud.look_up_volume(handle) => found,
        };
        let found = found.map_err(|limited| Error::rate_limited(limited.retry_after))?;
        let Some(known) = found else {
            return Ok(VolumeLookup::Absent(format!("there is no volume {handle}")));
        };
        match known.state {
            VolumeState::Available => {
                let zones = known.zones.iter().map(String::as_str);
                let topology = VolumeTopology::zonal(&known.region, zones);
                Ok(VolumeLookup::Found(topology))
            }
            VolumeState::Foreign => Ok(VolumeLookup::NotManaged(format!(
                "{handle} is of another account"
            ))),
            VolumeState::Failing => Err(Error::cloud_error(format!("{handle} fails"))),
            VolumeState::Hidden => Ok(VolumeLookup::NotVisibleYet(format!(
                "{handle} may not be visible yet"
            ))),
        }
    }
}

/// Whether no volume can have this handle.
pub(crate) fn is_malformed(handle: &str) -> bool {
    handle.is_empty() || handle.contains(char::is_whitespace)
}

pub(crate) fn malformed(handle: &str) -> String {
    format!("{handle:?} is no handle of the mock: it is empty or has spaces")
}

/// The handle, or the name or id of the disk.
fn handle(source: &VolumeSource) -> &str {
    match source {
        VolumeSource::Csi { volume_handle, .. } => volume_handle,
        VolumeSource::AwsElasticBlockStore { volume_id, .. }
        | VolumeSource::Cinder { volume_id, .. } => volume_id,
        VolumeSource::GcePersistentDisk { pd_name, .. } => pd_name,
        VolumeSource::AzureDisk { disk_name, .. } => disk_name,
        VolumeSource::VsphereVolume { volume_path, .. } => below_datastore(volume_path),
        _ => "",
    }
}

/// The same in a message.
pub(crate) fn handle_in(source: &Source) -> String {
    let handle: &str = match source {
        Source::Csi(csi) => &csi.volume_handle,
        Source::AwsElasticBlockStore(disk) => &disk.volume_id,
        Source::Cinder(volume) => &volume.volume_id,
        Source::GcePersistentDisk(disk) => &disk.pd_name,
        Source::AzureDisk(disk) => &disk.disk_name,
        Source::VsphereVolume(disk) => below_datastore(&disk.volume_path),
    };
    handle.to_owned()
}

/// Of `[datastore] path/name.vmdk`.
fn below_datastore(volume_path: &str) -> &str {
    volume_path.rsplit(' ').next().unwrap_or_default()
}

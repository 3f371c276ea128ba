//! Volumes as the contract asks for them.

use outrigger_provider_sdk as sdk;
use outrigger_provider_sdk::{
    Context, Error, VolumeLookup, VolumeSource, VolumeSourceKind, VolumeTopology, Volumes,
    VolumesCapability,
};

use super::MockProvider;
use crate::volumes::{VolumeState, below_datastore, is_malformed, malformed};

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
        let Some(served) = served else {
            return VolumesCapability::default();
        };
        let in_tree = served.in_tree.then(|| kinds.to_vec());
        VolumesCapability::default()
            .with_csi_drivers(served.csi_drivers.as_slice())
            .with_source_kinds(in_tree.unwrap_or_default())
    }

    async fn get_volume(&self, ctx: &Context, volume: &sdk::Volume) -> Result<VolumeLookup, Error> {
        let cloud = self.cloud();
        let handle = handle(&volume.source);
        if is_malformed(handle) {
            return Err(Error::malformed_volume_handle(malformed(handle)));
        }
        let lookup = tokio::select! {
            () = ctx.cancelled() => return Err(Error::cancelled()),
            answer = cloud.look_up_volume(handle) => answer,
        };
        let Some(volume) = lookup? else {
            return Ok(VolumeLookup::Absent(format!("there is no volume {handle}")));
        };
        match volume.state {
            VolumeState::Available => {
                let zones = volume.zones.iter().map(String::as_str);
                let topology = VolumeTopology::zonal(&volume.region, zones);
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

//! Volumes as the contract asks for them.

use outrigger_provider_sdk::v1::{self, VolumeSourceKind};
use outrigger_provider_sdk::{Context, Error, Outcome, Volumes};

use super::MockProvider;
use crate::volumes::{VolumeState, handle_in, is_malformed, malformed};

impl Volumes for MockProvider {
    fn capability(&self) -> v1::VolumesCapability {
        let kinds = [
            VolumeSourceKind::AwsElasticBlockStore,
            VolumeSourceKind::GcePersistentDisk,
            VolumeSourceKind::AzureDisk,
            VolumeSourceKind::Cinder,
            VolumeSourceKind::VsphereVolume,
        ];
        let served = self.options().volumes.as_ref();
        let kinds = kinds
            .into_iter()
            .filter(|_| served.is_some_and(|served| served.in_tree));
        v1::VolumesCapability {
            csi_drivers: served.map_or_else(Vec::new, |served| served.csi_drivers.clone()),
            source_kinds: kinds.map(Into::into).collect(),
            max_in_flight: 0,
        }
    }

    async fn get_volume(
        &self,
        ctx: &Context,
        volume: &v1::Volume,
    ) -> Result<Outcome<v1::VolumeTopology>, Error> {
        let cloud = self.cloud();
        let source = volume.source.as_ref();
        let source = source.and_then(|source| source.source.as_ref());
        let handle = source.map_or("", handle_in);
        if is_malformed(handle) {
            return Err(Error::malformed_volume_handle(malformed(handle)));
        }
        let lookup = tokio::select! {
            () = ctx.cancelled() => return Err(Error::cancelled()),
            answer = cloud.look_up_volume(handle) => answer,
        };
        let Some(volume) = lookup? else {
            return Ok(Outcome::absent(format!("there is no volume {handle}")));
        };
        match volume.state {
            VolumeState::Available => {
                let labels = [
                    ("region", volume.region.clone()),
                    ("zone", volume.zones.join("__")),
                ];
                let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
                let labels =
                    labels.map(|(key, value)| (format!("topology.kubernetes.io/{key}"), value));
                Ok(Outcome::Found(v1::VolumeTopology {
                    labels: labels.collect(),
                    node_terms: Vec::new(),
                }))
            }
            VolumeState::Foreign => Ok(Outcome::not_managed(format!(
                "{handle} is of another account"
            ))),
            VolumeState::Failing => Err(Error::cloud_error(format!("{handle} fails"))),
            VolumeState::Hidden => Ok(Outcome::not_visible_yet(format!(
                "{handle} may not be visible yet"
            ))),
        }
    }
}

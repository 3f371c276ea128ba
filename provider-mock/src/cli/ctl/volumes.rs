//! `provider-mock ctl volumes`.

use clap::Subcommand;
use outrigger_provider_mock::control::{Client, Targets};
use outrigger_provider_mock::volumes::Volume;

use super::super::show::Shown;

#[derive(Debug, Subcommand)]
pub(super) enum VolumeAction {
    /// List the volumes
    List,
    /// Make a volume, or let one answer otherwise: in other zones, as another account's, or not at all
    Set(Volume),
    /// Delete volumes
    Delete(Targets),
}

pub(super) async fn ask(client: &Client, action: VolumeAction) -> anyhow::Result<Shown> {
    let (done, changed) = match action {
        VolumeAction::List => return Ok(Shown::Volumes(client.volumes().await?)),
        VolumeAction::Set(volume) => ("set", client.set_volume(&volume).await?),
        VolumeAction::Delete(targets) => ("deleted", client.delete_volumes(&targets).await?),
    };
    Ok(Shown::ChangedVolumes { done, changed })
}

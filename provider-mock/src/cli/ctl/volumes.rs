//! `provider-mock ctl volumes`.

use clap::{Args, Subcommand, ValueEnum};
use outrigger_provider_mock::control::{Client, Targets};
use outrigger_provider_mock::volumes::{Volume, VolumeState};

use super::super::show::Shown;

#[derive(Debug, Subcommand)]
pub(super) enum VolumeAction {
    /// List the volumes
    List,
    /// Make a volume, or let one answer otherwise: in other zones, as another account's, or not at all
    Set(SetArgs),
    /// Delete volumes
    Delete {
        /// Handles; if one is not known, nothing is changed
        #[arg(required_unless_present = "all", value_name = "HANDLE")]
        targets: Vec<String>,
        /// Each volume
        #[arg(long, conflicts_with = "targets")]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// Its CSI handle, or the name or id of the disk
    handle: String,
    /// Its region [default: none]
    #[arg(long, default_value = "", hide_default_value = true)]
    region: String,
    /// A zone that it can be used in; may be repeated [default: none]
    #[arg(long = "zone", value_name = "ZONE")]
    zones: Vec<String>,
    /// How it answers
    #[arg(long, default_value = "available", value_name = "STATE")]
    state: StateArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateArg {
    /// It is found
    Available,
    /// It is of another account
    Foreign,
    /// The cloud fails for it
    Failing,
    /// It may not be visible yet
    Hidden,
}

pub(super) async fn ask(client: &Client, action: VolumeAction) -> anyhow::Result<Shown> {
    let (done, changed) = match action {
        VolumeAction::List => return Ok(Shown::Volumes(client.volumes().await?)),
        VolumeAction::Set(args) => {
            let volume = Volume {
                handle: args.handle,
                region: args.region,
                zones: args.zones,
                state: match args.state {
                    StateArg::Available => VolumeState::Available,
                    StateArg::Foreign => VolumeState::Foreign,
                    StateArg::Failing => VolumeState::Failing,
                    StateArg::Hidden => VolumeState::Hidden,
                },
            };
            ("set", client.set_volume(&volume).await?)
        }
        VolumeAction::Delete { targets, all } => {
            let targets = Targets {
                targets,
                all,
                terminating: false,
            };
            ("deleted", client.delete_volumes(&targets).await?)
        }
    };
    Ok(Shown::ChangedVolumes { done, changed })
}

//! The volumes of the fake cloud.

use std::fmt;

use clap::{Args, ValueEnum};
use outrigger_api::v1::volume_source::Source;
use serde::{Deserialize, Serialize};

use crate::choice;

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

/// True if no volume can have this handle.
pub(crate) fn is_malformed(handle: &str) -> bool {
    handle.is_empty() || handle.contains(char::is_whitespace)
}

pub(crate) fn malformed(handle: &str) -> String {
    format!("{handle:?} is no handle of the mock: it is empty or has spaces")
}

/// The handle of a volume in a message, or the name or id of the disk.
pub(crate) fn handle_in(source: &Source) -> &str {
    match source {
        Source::Csi(csi) => &csi.volume_handle,
        Source::AwsElasticBlockStore(disk) => &disk.volume_id,
        Source::Cinder(volume) => &volume.volume_id,
        Source::GcePersistentDisk(disk) => &disk.pd_name,
        Source::AzureDisk(disk) => &disk.disk_name,
        Source::VsphereVolume(disk) => below_datastore(&disk.volume_path),
    }
}

/// The file in `[datastore] path/name.vmdk`.
fn below_datastore(volume_path: &str) -> &str {
    volume_path.rsplit(' ').next().unwrap_or_default()
}

//! Volumes on the control socket.

use serde::{Deserialize, Serialize};

use super::messages::Targets;
use super::refusal::{Refusal, chosen, printable};
use crate::cloud::Cloud;
use crate::volumes::{Volume, is_malformed, malformed};

/// Answer to `volumes`, and to any change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownVolumes {
    /// By handle; deleted ones as they were.
    pub volumes: Vec<Volume>,
}

pub(super) fn list(cloud: &Cloud) -> ShownVolumes {
    ShownVolumes {
        volumes: cloud.volumes(),
    }
}

pub(super) fn set(cloud: &Cloud, volume: Volume) -> Result<ShownVolumes, Refusal> {
    let texts = volume.zones.iter().chain([&volume.handle, &volume.region]);
    texts.into_iter().try_for_each(|text| printable(text))?;
    if is_malformed(&volume.handle) {
        return Err(Refusal::bad_request(malformed(&volume.handle)));
    }
    cloud.edit_volumes(|volumes| volumes.insert(volume.handle.clone(), volume.clone()));
    let volumes = vec![volume];
    Ok(ShownVolumes { volumes })
}

pub(super) fn delete(cloud: &Cloud, targets: &Targets) -> Result<ShownVolumes, Refusal> {
    cloud.edit_volumes(|volumes| {
        let all = || volumes.values().cloned().collect();
        let named = |handle: &str| volumes.get(handle).cloned().into_iter().collect();
        let deleted = chosen("volume", targets, all, named)?;
        for volume in &deleted {
            volumes.remove(&volume.handle);
        }
        Ok(ShownVolumes { volumes: deleted })
    })
}

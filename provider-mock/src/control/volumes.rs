//! Volumes on the control socket.

use serde::{Deserialize, Serialize};

use super::answer::{Answer, Refusal, chosen, json, printable, read};
use super::messages::Targets;
use crate::cloud::Cloud;
use crate::volumes::{Volume, is_malformed, malformed};

/// `GET /v1/volumes`, and what any change answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownVolumes {
    /// By handle; deleted ones as they were.
    pub volumes: Vec<Volume>,
}

pub(super) fn list(cloud: &Cloud) -> Answer {
    shown(cloud.volumes())
}

/// `POST /v1/volumes`: makes the volume, or puts it in the place of the one with its handle.
pub(super) fn set(cloud: &Cloud, body: &[u8]) -> Answer {
    let volume: Volume = read(body)?;
    let texts = volume.zones.iter().chain([&volume.handle, &volume.region]);
    texts.into_iter().try_for_each(|text| printable(text))?;
    if is_malformed(&volume.handle) {
        return Err(Refusal::bad_request(malformed(&volume.handle)));
    }
    cloud.edit_volumes(|volumes| volumes.insert(volume.handle.clone(), volume.clone()));
    shown(vec![volume])
}

pub(super) fn delete(cloud: &Cloud, body: &[u8]) -> Answer {
    let targets: Targets = read(body)?;
    cloud.edit_volumes(|volumes| {
        let all = || volumes.values().cloned().collect();
        let named = |handle: &str| volumes.get(handle).cloned().into_iter().collect();
        let deleted = chosen("volume", &targets, all, named)?;
        for volume in &deleted {
            volumes.remove(&volume.handle);
        }
        shown(deleted)
    })
}

fn shown(volumes: Vec<Volume>) -> Answer {
    json(&ShownVolumes { volumes })
}

//! Volumes on the control socket.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Refusal, json, printable, read};
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
        if targets.all {
            return shown(std::mem::take(volumes).into_values().collect());
        }
        if targets.targets.is_empty() {
            let error = "no volume is named; name some, or all";
            return Err(Refusal::bad_request(error.to_owned()));
        }
        let unknown = |handle: &&String| !volumes.contains_key(*handle);
        if let Some(handle) = targets.targets.iter().find(unknown) {
            return Err(Refusal {
                status: StatusCode::NOT_FOUND,
                error: format!("there is no volume {handle}; nothing was changed"),
            });
        }
        let deleted = targets.targets.iter();
        shown(
            deleted
                .filter_map(|handle| volumes.remove(handle))
                .collect(),
        )
    })
}

fn shown(volumes: Vec<Volume>) -> Answer {
    json(&ShownVolumes { volumes })
}

//! `VolumesService`: requests checked before, results completed after a vendor's handler.

use std::collections::HashSet;
use std::sync::Arc;

use outrigger_api::v1::{self, volumes_service_server::VolumesService};
use tonic::{Request, Response, Status};

use super::calls::{Call, answered, within};
use super::core::Core;
use crate::volumes::{Volume, VolumeLookups, into_wire};
use crate::{Error, Volumes, VolumesCapability};

pub(super) struct VolumesRpc<V> {
    core: Arc<Core>,
    volumes: Arc<V>,
    max_batch_size: usize,
}

impl<V: Volumes> VolumesRpc<V> {
    pub(super) fn new(core: Arc<Core>, volumes: Arc<V>, capability: &VolumesCapability) -> Self {
        Self {
            core,
            volumes,
            max_batch_size: capability.max_batch_size as usize,
        }
    }
}

#[tonic::async_trait]
impl<V: Volumes> VolumesService for VolumesRpc<V> {
    async fn batch_get_volumes(
        &self,
        request: Request<v1::BatchGetVolumesRequest>,
    ) -> Result<Response<v1::BatchGetVolumesResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "BatchGetVolumes", &request, |request| {
                request.context.as_ref()
            })?;
            let asked = check(request.into_inner().items, self.max_batch_size)?;

            let max_bytes = call.session.max_send_bytes;
            let volumes = Arc::clone(&self.volumes);
            let response = call.run(async move |ctx| {
                let found = volumes.get_volumes(&ctx, &asked).await?;
                let results = one_each(asked, found);
                let response = v1::BatchGetVolumesResponse { results };
                within(max_bytes, response, "VolumesCapability.max_batch_size")
            });
            response.await
        })
        .await
    }
}

fn check(volumes: Vec<v1::Volume>, max_batch_size: usize) -> Result<Vec<Volume>, Error> {
    let count = volumes.len();
    if count == 0 || count > max_batch_size {
        return Err(Error::invalid_request(format!(
            "the request asks about {count} volumes; send 1 to {max_batch_size} \
             (VolumesCapability.max_batch_size)"
        )));
    }
    let mut keys = HashSet::with_capacity(count);
    let checked = volumes.into_iter().enumerate().map(|(index, volume)| {
        let key = volume.key.clone();
        let wrong = if key.is_empty() || key.len() > 253 {
            format!("has a key of {} bytes; send 1 to 253", key.len())
        } else if keys.contains(&key) {
            format!("is {key:?}, which the request has asked about already")
        } else if let Some(volume) = Volume::from_wire(volume) {
            keys.insert(key);
            return Ok(volume);
        } else {
            "has no source".to_owned()
        };
        Err(Error::invalid_request(format!("volumes[{index}] {wrong}")))
    });
    checked.collect()
}

/// Exactly one result for each volume, in the order of the request.
fn one_each(volumes: Vec<Volume>, mut found: VolumeLookups) -> Vec<v1::VolumeResult> {
    let results = volumes.into_iter().map(|Volume { key, name, .. }| {
        let result = found.remove(&key).unwrap_or_else(|| {
            tracing::warn!(volume = name, "get_volumes returned no result for a volume");
            Err(Error::internal(
                "the provider returned no result for this volume",
            ))
        });
        into_wire(key, result)
    });
    let results = results.collect();
    for key in found.keys() {
        tracing::warn!(
            key,
            "get_volumes returned a result for a volume that the request does not name"
        );
    }
    results
}

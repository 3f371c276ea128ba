//! `VolumesService`: each lookup goes to the vendor's [`Volumes`]. Nothing here changes the cloud, so no lock is taken.

use std::sync::Arc;

use outrigger_api::v1::get_volume_response::Outcome as Wire;
use outrigger_api::v1::{self, volumes_service_server::VolumesService};
use tonic::{Request, Response, Status};

use super::core::Core;
use crate::{Outcome, Volumes};

pub(super) struct VolumesRpc<V> {
    pub(super) core: Arc<Core>,
    pub(super) volumes: Arc<V>,
}

#[tonic::async_trait]
impl<V: Volumes> VolumesService for VolumesRpc<V> {
    async fn get_volume(
        &self,
        request: Request<v1::GetVolumeRequest>,
    ) -> Result<Response<v1::GetVolumeResponse>, Status> {
        let volumes = Arc::clone(&self.volumes);
        let look_up = async move |ctx, request: v1::GetVolumeRequest| {
            let volume = request.volume.unwrap_or_default();
            let outcome = match volumes.get_volume(&ctx, &volume).await? {
                Outcome::Found(topology) => Wire::Found(topology),
                Outcome::Absent(absent) => Wire::Absent(absent),
                Outcome::NotManaged(not_managed) => Wire::NotManaged(not_managed),
            };
            let outcome = Some(outcome);
            Ok(v1::GetVolumeResponse { outcome })
        };
        self.core.unary(request, look_up).await
    }
}

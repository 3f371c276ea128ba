//! `VolumesService`.

use std::sync::Arc;

use outrigger_api::v1::{self, volumes_service_server::VolumesService};
use tonic::{Request, Response, Status};

use super::core::Core;
use crate::{Volume, VolumeLookup, Volumes};

pub(super) struct VolumesRpc<V> {
    pub(super) core: Arc<Core>,
    pub(super) volumes: Arc<V>,
}

#[tonic::async_trait]
impl<V: Volumes> VolumesService for VolumesRpc<V> {
    async fn batch_get_volumes(
        &self,
        request: Request<v1::BatchGetVolumesRequest>,
    ) -> Result<Response<v1::BatchGetVolumesResponse>, Status> {
        let volumes = Arc::clone(&self.volumes);
        let look_up = async move |ctx, request: v1::BatchGetVolumesRequest| {
            let items: Vec<_> = request.items.into_iter().map(Volume::from_wire).collect();
            volumes.get_volumes(&ctx, &items).await
        };
        let outcome = |lookup: VolumeLookup| (lookup.into_wire(), None);
        self.core.batch(request, look_up, outcome).await
    }
}

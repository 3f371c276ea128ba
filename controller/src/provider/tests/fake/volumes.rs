//! Its volumes.

use outrigger_api::v1::{self, volume_result::Outcome, volumes_service_server::VolumesService};
use tonic::{Request, Response, Status};

use super::{Fake, Reply, load_balancers::Method};

pub(in crate::provider) type FakeVolumes =
    Method<v1::BatchGetVolumesRequest, v1::BatchGetVolumesResponse>;

/// Finds every volume in the zone `z`.
pub(super) fn volumes() -> FakeVolumes {
    Method::new(|request: &v1::BatchGetVolumesRequest| Reply::Say(all_found(request)))
}

pub(in crate::provider) fn all_found(
    request: &v1::BatchGetVolumesRequest,
) -> v1::BatchGetVolumesResponse {
    let volumes = request.items.iter();
    v1::BatchGetVolumesResponse {
        results: volumes.map(|volume| in_zone(&volume.key, "z")).collect(),
    }
}

pub(in crate::provider) fn in_zone(key: &str, zone: &str) -> v1::VolumeResult {
    let label = ("topology.kubernetes.io/zone".to_owned(), zone.to_owned());
    volume_result(
        key,
        Outcome::Found(v1::VolumeTopology {
            labels: [label].into(),
            node_terms: Vec::new(),
        }),
    )
}

pub(in crate::provider) fn volume_result(key: &str, outcome: Outcome) -> v1::VolumeResult {
    v1::VolumeResult {
        key: key.to_owned(),
        outcome: Some(outcome),
    }
}

#[tonic::async_trait]
impl VolumesService for Fake {
    async fn batch_get_volumes(
        &self,
        request: Request<v1::BatchGetVolumesRequest>,
    ) -> Result<Response<v1::BatchGetVolumesResponse>, Status> {
        self.volumes.answer(request).await
    }
}

//! A provider of volumes that says what a test wants.

use std::{path::Path, sync::Arc};

use outrigger_api::v1::{
    self,
    provider_service_server::ProviderServiceServer,
    volume_result::Outcome,
    volume_source::Source,
    volumes_service_server::{VolumesService, VolumesServiceServer},
};
use parking_lot::Mutex;
use tonic::{Request, Response, Status, service::Routes};

use super::{Introduced, Scripted, handshake};
use crate::cluster::volumes::DRIVER;

type Answer = dyn Fn(&str) -> Outcome + Send + Sync;

/// Serves at the socket in its directory until it is dropped.
pub(crate) struct Storing {
    questions: Arc<Mutex<Vec<v1::Volume>>>,
    _served: Scripted,
}

struct Volumes {
    answer: Arc<Answer>,
    questions: Arc<Mutex<Vec<v1::Volume>>>,
}

impl Storing {
    /// Answers about each handle by `answer`.
    pub(crate) fn serve(
        dir: &Path,
        answer: impl Fn(&str) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let questions = Arc::<Mutex<Vec<_>>>::default();
        let volumes = Volumes {
            answer: Arc::new(answer),
            questions: Arc::clone(&questions),
        };
        let handshake = v1::HandshakeResponse {
            capabilities: Some(v1::Capabilities {
                volumes: Some(v1::VolumesCapability {
                    csi_drivers: vec![DRIVER.to_owned()],
                    source_kinds: vec![v1::VolumeSourceKind::AwsElasticBlockStore.into()],
                    ..v1::VolumesCapability::default()
                }),
                ..v1::Capabilities::default()
            }),
            ..handshake()
        };
        let introduced = ProviderServiceServer::new(Introduced(handshake));
        let routes = Routes::new(introduced).add_service(VolumesServiceServer::new(volumes));
        Self {
            questions,
            _served: Scripted::start(dir, routes, Arc::default()),
        }
    }

    /// How many volumes it was asked about.
    pub(crate) fn asked(&self) -> usize {
        self.questions.lock().len()
    }
}

/// The handle of a volume of either kind that is served.
fn handle(volume: &v1::Volume) -> &str {
    match volume.source.as_ref().and_then(|of| of.source.as_ref()) {
        Some(Source::Csi(csi)) => &csi.volume_handle,
        Some(Source::AwsElasticBlockStore(disk)) => &disk.volume_id,
        other => panic!("{other:?}"),
    }
}

#[tonic::async_trait]
impl VolumesService for Volumes {
    async fn batch_get_volumes(
        &self,
        request: Request<v1::BatchGetVolumesRequest>,
    ) -> Result<Response<v1::BatchGetVolumesResponse>, Status> {
        let volumes = request.into_inner().items;
        self.questions.lock().extend(volumes.iter().cloned());
        let result = |volume: &v1::Volume| v1::VolumeResult {
            key: volume.key.clone(),
            outcome: Some((self.answer)(handle(volume))),
        };
        Ok(Response::new(v1::BatchGetVolumesResponse {
            results: volumes.iter().map(result).collect(),
        }))
    }
}

//! A provider of volumes that says what a test wants.

use std::{path::Path, sync::Arc};

use outrigger_api::v1::{
    self,
    get_volume_response::Outcome,
    provider_service_server::ProviderServiceServer,
    volume_source::Source,
    volumes_service_server::{VolumesService, VolumesServiceServer},
};
use parking_lot::Mutex;
use tonic::{Request, Response, Status, service::Routes};

use super::{Introduced, Scripted, handshake};
use crate::cluster::volumes::DRIVER;

type Answer = dyn Fn(&str) -> Result<Outcome, Status> + Send + Sync;

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
        answer: impl Fn(&str) -> Result<Outcome, Status> + Send + Sync + 'static,
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
            _served: Scripted::start(dir, routes),
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
    async fn get_volume(
        &self,
        request: Request<v1::GetVolumeRequest>,
    ) -> Result<Response<v1::GetVolumeResponse>, Status> {
        let volume = request.into_inner().volume.unwrap_or_default();
        let outcome = Some((self.answer)(handle(&volume))?);
        self.questions.lock().push(volume);
        Ok(Response::new(v1::GetVolumeResponse { outcome }))
    }
}

//! `ProviderService`: the answers to `Handshake` and `GetStatus`, made from the vendor's [`Provider`](crate::Provider).
//!
//! The controller calls `Handshake` first on each connection, and `GetStatus` every 10 s as its heartbeat. Neither reaches
//! the cloud, and neither needs a handshake before it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use outrigger_api::v1::provider_service_server::ProviderService;
use outrigger_api::{MINOR, v1};
use tonic::{Request, Response, Status};

use super::core::Core;
use crate::Error;
use crate::error::cut;

/// Minor revisions that this crate speaks.
const MINORS: RangeInclusive<u32> = 1..=MINOR;

pub(super) struct Identity {
    core: Arc<Core>,
}

impl Identity {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

#[tonic::async_trait]
impl ProviderService for Identity {
    async fn handshake(
        &self,
        request: Request<v1::HandshakeRequest>,
    ) -> Result<Response<v1::HandshakeResponse>, Status> {
        let request = request.into_inner();
        let minor = self
            .core
            .refuse_when_draining()
            .and_then(|()| negotiate(MINORS, request.min_minor, request.max_minor))
            .map_err(Error::into_status)?;
        let cluster = request.cluster.unwrap_or_default();
        tracing::info!(
            minor,
            controller = cut(request.controller_name, 253),
            controller_version = cut(request.controller_version, 253),
            kubernetes_version = cut(request.kubernetes_version, 253),
            cluster = cluster.name,
            "handshake"
        );
        self.core
            .shake_hands(cluster, request.max_receive_message_bytes);

        let info = &self.core.info;
        let mut capabilities = self.core.capabilities.clone();
        capabilities.effects.clone_from(&info.effects);
        Ok(Response::new(v1::HandshakeResponse {
            minor,
            provider_name: info.name.clone(),
            provider_version: info.version.clone(),
            boot_id: self.core.boot_id.clone(),
            capabilities: Some(capabilities),
            without_cluster_id: info.without_cluster_id,
            service_annotation_prefixes: info.service_annotation_prefixes.clone(),
            node_annotation_prefixes: info.node_annotation_prefixes.clone(),
            max_receive_message_bytes: self.core.max_message_bytes as u64,
            rate_limits: info.rate_limits.clone(),
        }))
    }

    async fn get_status(
        &self,
        _request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        self.core
            .refuse_when_draining()
            .map_err(Error::into_status)?;
        Ok(Response::new(v1::GetStatusResponse {
            boot_id: self.core.boot_id.clone(),
            ..self.core.status()
        }))
    }
}

/// The minor that both sides speak: the lower of both maxima, inside both ranges.
fn negotiate(ours: RangeInclusive<u32>, min: u32, max: u32) -> Result<u32, Error> {
    if min == 0 || max < min {
        return Err(Error::invalid_request(format!(
            "min_minor {min} and max_minor {max} are no range; send 1 <= min_minor <= max_minor"
        )));
    }
    let minor = max.min(*ours.end());
    if minor < min || minor < *ours.start() {
        return Err(Error::version_unsupported(format!(
            "the controller speaks minor {min} to {max} of cloudprovider.v1, this provider {} to \
             {}; upgrade the older of them",
            ours.start(),
            ours.end()
        )));
    }
    Ok(minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorReason;

    #[test]
    fn the_lower_of_both_maxima_is_chosen_if_both_speak_it() {
        use ErrorReason::{InvalidRequest, VersionUnsupported};
        for (ours, min, max, expected) in [
            (1..=1, 1, 1, Ok(1)),
            (1..=1, 1, 9, Ok(1)),
            (1..=3, 1, 2, Ok(2)),
            (2..=4, 1, 3, Ok(3)),
            (2..=4, 4, 9, Ok(4)),
            (2..=4, 1, 1, Err(VersionUnsupported)),
            (2..=4, 5, 9, Err(VersionUnsupported)),
            (1..=1, 0, 1, Err(InvalidRequest)),
            (1..=1, 0, 0, Err(InvalidRequest)),
            (1..=3, 3, 2, Err(InvalidRequest)),
        ] {
            let chosen = negotiate(ours.clone(), min, max);
            let chosen = chosen.map_err(|error| error.reason().unwrap());
            assert_eq!(chosen, expected, "ours {ours:?}, theirs {min}..={max}");
        }
    }

    #[test]
    fn disjoint_ranges_are_both_named() {
        let error = negotiate(2..=4, 5, 9).unwrap_err();
        assert!(error.message().contains("5 to 9"), "{error}");
        assert!(error.message().contains("2 to 4"), "{error}");
    }
}

//! The state that all services of one server share: the vendor's [`Provider`], the latest handshake, the node set and the
//! running handlers.
//!
//! `identity` writes the handshake; every call reads it. All of it is in memory, under a `boot_id` that is new with each
//! process: the controller sees another one and sends again whatever the process before had.

use std::sync::Arc;

use outrigger_api::{DEFAULT_MAX_MESSAGE_BYTES, v1};
use parking_lot::RwLock;
use uuid::Uuid;

use super::running::Running;
use crate::node_sets::NodeSet;
use crate::{Error, Provider, ProviderInfo};

pub(super) struct Core {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) info: ProviderInfo,
    pub(super) boot_id: String,
    pub(super) capabilities: v1::Capabilities,
    pub(super) max_message_bytes: usize,
    pub(super) node_set: NodeSet,
    pub(super) running: Running,
    /// The latest handshake. A process serves one controller at a time (an old one may drain while
    /// the next starts), so the latest is the one that counts.
    session: RwLock<Option<Session>>,
}

/// The result of a handshake.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) cluster: Arc<v1::ClusterInfo>,
    /// Largest message that the controller accepts, in bytes.
    pub(super) max_send_bytes: usize,
}

impl Core {
    pub(super) fn new(
        provider: Arc<dyn Provider>,
        capabilities: v1::Capabilities,
        max_message_bytes: usize,
    ) -> Self {
        Self {
            node_set: NodeSet::default(),
            info: provider.info(),
            provider,
            boot_id: Uuid::new_v4().to_string(),
            capabilities,
            max_message_bytes,
            running: Running::default(),
            session: RwLock::new(None),
        }
    }

    pub(super) fn shake_hands(&self, mut cluster: v1::ClusterInfo, max_receive_message_bytes: u64) {
        let max_send_bytes = match usize::try_from(max_receive_message_bytes) {
            Ok(0) => DEFAULT_MAX_MESSAGE_BYTES,
            Ok(bytes) => bytes,
            Err(_) => usize::MAX,
        };
        let mut session = self.session.write();
        if let Some(former) = session.as_ref().map(|session| &session.cluster)
            && cluster.uid.is_empty()
            && cluster.name == former.name
        {
            // From a caller with fewer rights, which must not make existing resources another
            // cluster's.
            cluster.uid.clone_from(&former.uid);
        }
        *session = Some(Session {
            cluster: Arc::new(cluster),
            max_send_bytes,
        });
    }

    pub(super) fn refuse_when_draining(&self) -> Result<(), Error> {
        if self.running.draining() {
            return Err(ending());
        }
        Ok(())
    }

    /// The handshake under which calls about `cluster_name` are made.
    pub(super) fn session(&self, cluster_name: &str) -> Result<Session, Error> {
        match &*self.session.read() {
            Some(session) if session.cluster.name == cluster_name => Ok(session.clone()),
            Some(session) => Err(Error::not_handshaked(format!(
                "the call is about cluster {cluster_name:?}, the latest handshake about {:?}; call \
                 Handshake first",
                session.cluster.name
            ))),
            None => Err(Error::not_handshaked(
                "no handshake since this provider process started; call Handshake first",
            )),
        }
    }

    /// The vendor's word on how it is; one that panics is broken.
    pub(super) fn status(&self) -> v1::GetStatusResponse {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.provider.status()))
            .unwrap_or_else(|_| {
                tracing::error!("the provider's status panicked; reported as broken");
                v1::GetStatusResponse {
                    readiness: v1::Readiness::Broken.into(),
                    ..v1::GetStatusResponse::default()
                }
            })
    }

    pub(super) fn health(&self) -> tonic_health::ServingStatus {
        let serving = [v1::Readiness::Ready, v1::Readiness::Degraded];
        if !self.running.draining() && serving.contains(&self.status().readiness()) {
            tonic_health::ServingStatus::Serving
        } else {
            tonic_health::ServingStatus::NotServing
        }
    }
}

pub(super) fn ending() -> Error {
    Error::shutting_down("this provider is ending; connect again")
}

//! The state that the services of one server share.

use std::sync::Arc;

use outrigger_api::{DEFAULT_MAX_MESSAGE_BYTES, v1};
use parking_lot::RwLock;
use uuid::Uuid;

use super::running::Running;
use crate::{Cluster, Error, Provider, ProviderInfo, ProviderStatus, Readiness, ServeError};

pub(super) struct Core {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) info: ProviderInfo,
    pub(super) boot_id: String,
    pub(super) capabilities: v1::Capabilities,
    pub(super) max_message_bytes: usize,
    pub(super) running: Running,
    /// The latest handshake. A process serves one controller at a time (an old one may drain while
    /// the next starts), so the latest is the one that counts.
    session: RwLock<Option<Session>>,
}

/// The result of a handshake.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) cluster: Arc<Cluster>,
    /// Largest message that the controller accepts, in bytes.
    pub(super) max_send_bytes: usize,
}

impl Core {
    pub(super) fn new(
        provider: Arc<dyn Provider>,
        capabilities: v1::Capabilities,
        max_message_bytes: usize,
    ) -> Result<Self, ServeError> {
        let info = provider.info();
        check(&info, &capabilities)?;
        Ok(Self {
            provider,
            info,
            boot_id: Uuid::new_v4().to_string(),
            capabilities,
            max_message_bytes,
            running: Running::default(),
            session: RwLock::new(None),
        })
    }

    pub(super) fn shake_hands(&self, mut cluster: Cluster, max_receive_message_bytes: u64) {
        let max_send_bytes = match usize::try_from(max_receive_message_bytes) {
            Ok(0) => DEFAULT_MAX_MESSAGE_BYTES,
            Ok(bytes) => bytes,
            Err(_) => usize::MAX,
        };
        let mut session = self.session.write();
        if let Some(known) = session.as_ref().map(|session| &session.cluster)
            && cluster.uid.is_empty()
            && cluster.name == known.name
        {
            // From a caller with fewer rights, which must not make existing resources another
            // cluster's.
            cluster.uid.clone_from(&known.uid);
        }
        *session = Some(Session {
            cluster: Arc::new(cluster),
            max_send_bytes,
        });
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
    pub(super) fn status(&self) -> ProviderStatus {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.provider.status()))
            .unwrap_or_else(|_| {
                tracing::error!("the provider's status panicked; reported as broken");
                ProviderStatus::new(Readiness::Broken)
            })
    }

    pub(super) fn health(&self) -> tonic_health::ServingStatus {
        if !self.running.draining() && self.status().readiness.is_serving() {
            tonic_health::ServingStatus::Serving
        } else {
            tonic_health::ServingStatus::NotServing
        }
    }
}

/// Declarations that the controller would refuse at handshake are refused at the start, where the
/// author sees it.
fn check(info: &ProviderInfo, capabilities: &v1::Capabilities) -> Result<(), ServeError> {
    let name = &info.name;
    let legal = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if name.is_empty() || name.len() > 63 || !name.bytes().all(legal) {
        return Err(ServeError::Provider(format!(
            "the name {name:?} is not legal: use 1 to 63 of a-z, 0-9 and '-'"
        )));
    }
    if let Some(instances) = &capabilities.instances {
        if !(1..=500).contains(&instances.max_batch_size) {
            return Err(ServeError::Provider(format!(
                "InstancesCapability.max_batch_size is {}: use 1 to 500",
                instances.max_batch_size
            )));
        }
        if instances.provider_id_prefixes.iter().any(String::is_empty) {
            return Err(ServeError::Provider(
                "InstancesCapability.provider_id_prefixes has an empty prefix, which would claim \
                 every Node of the cluster: remove it"
                    .to_owned(),
            ));
        }
    }
    if let Some(routes) = &capabilities.routes {
        let (size, batches) = (routes.max_batch_size, routes.max_in_flight);
        if !(1..=500).contains(&size) {
            return Err(ServeError::Provider(format!(
                "RoutesCapability.max_batch_size is {size}: use 1 to 500"
            )));
        }
        if batches > 64 {
            return Err(ServeError::Provider(format!(
                "RoutesCapability.max_in_flight is {batches}: use at most 64"
            )));
        }
    }
    if let Some(wrong) = capabilities.volumes.as_ref().and_then(wrong_volumes) {
        return Err(ServeError::Provider(format!("VolumesCapability.{wrong}")));
    }
    let load_balancers = capabilities.load_balancers.as_ref();
    if let Some(wrong) = load_balancers.and_then(wrong_load_balancers) {
        return Err(ServeError::Provider(format!(
            "LoadBalancersCapability.{wrong}"
        )));
    }
    Ok(())
}

fn wrong_volumes(capability: &v1::VolumesCapability) -> Option<String> {
    let (size, calls) = (capability.max_batch_size, capability.max_in_flight);
    let is_name = |name: &String| {
        (1..=253).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let drivers = &capability.csi_drivers;
    if drivers.len() > 64 || !drivers.iter().all(is_name) {
        Some("csi_drivers are more than 64, or one is not 1 to 253 visible characters".to_owned())
    } else if !(1..=500).contains(&size) {
        Some(format!("max_batch_size is {size}: use 1 to 500"))
    } else if calls > 64 {
        Some(format!("max_in_flight is {calls}: use at most 64"))
    } else {
        None
    }
}

fn wrong_load_balancers(capability: &v1::LoadBalancersCapability) -> Option<String> {
    let services = capability.max_services_per_update;
    let classes = &capability.classes;
    let revision = capability.configuration_revision.len();
    if !(1..=200).contains(&services) {
        Some(format!(
            "max_services_per_update is {services}: use 1 to 200"
        ))
    } else if classes.len() > 64 || classes.iter().any(String::is_empty) {
        Some("classes are more than 64, or one is empty".to_owned())
    } else if capability.without_default_class && classes.is_empty() {
        Some("without_default_class without classes serves no Service at all".to_owned())
    } else if revision > 64 {
        Some(format!(
            "configuration_revision has {revision} bytes: use at most 64"
        ))
    } else {
        None
    }
}

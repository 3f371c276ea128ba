//! The state that the services of one server share.

use std::sync::Arc;

use outrigger_api::{DEFAULT_MAX_MESSAGE_BYTES, v1};
use parking_lot::RwLock;
use uuid::Uuid;

use super::running::Running;
use crate::node_sets::NodeSet;
use crate::{Cluster, Error, Provider, ProviderInfo, ProviderStatus, Readiness, ServeError};

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
            node_set: NodeSet::default(),
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

pub(super) fn ending() -> Error {
    Error::shutting_down("this provider is ending; connect again")
}

/// Declarations that the controller would refuse at handshake are refused at the start, where the
/// author sees it.
fn check(info: &ProviderInfo, capabilities: &v1::Capabilities) -> Result<(), ServeError> {
    let refused = |wrong: String| Err(ServeError::Provider(wrong));
    let name = &info.name;
    let legal = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if name.is_empty() || name.len() > 63 || !name.bytes().all(legal) {
        return refused(format!(
            "the name {name:?} is not legal: use 1 to 63 of a-z, 0-9 and '-'"
        ));
    }
    let mut numbers = Vec::new();
    if let Some(instances) = &capabilities.instances {
        numbers.push((
            "Instances",
            "max_batch_size",
            instances.max_batch_size,
            1..=500,
        ));
        if instances.provider_id_prefixes.iter().any(String::is_empty) {
            return refused(
                "InstancesCapability.provider_id_prefixes has an empty prefix, which would claim \
                 every Node of the cluster: remove it"
                    .to_owned(),
            );
        }
    }
    if let Some(routes) = &capabilities.routes {
        numbers.push(("Routes", "max_in_flight", routes.max_in_flight, 0..=256));
    }
    if let Some(volumes) = &capabilities.volumes {
        numbers.push(("Volumes", "max_in_flight", volumes.max_in_flight, 0..=256));
        let is_name = |name: &String| {
            (1..=253).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let drivers = &volumes.csi_drivers;
        if drivers.len() > 64 || !drivers.iter().all(is_name) {
            return refused(
                "VolumesCapability.csi_drivers are more than 64, or one is not 1 to 253 visible \
                 characters"
                    .to_owned(),
            );
        }
    }
    if let Some(balancers) = &capabilities.load_balancers {
        let classes = &balancers.classes;
        let revision = balancers.configuration_revision.len();
        for (is_wrong, wrong) in [
            (
                classes.len() > 64 || classes.iter().any(String::is_empty),
                "classes are more than 64, or one is empty".to_owned(),
            ),
            (
                balancers.without_default_class && classes.is_empty(),
                "without_default_class without classes serves no Service at all".to_owned(),
            ),
            (
                revision > 64,
                format!("configuration_revision has {revision} bytes: use at most 64"),
            ),
        ] {
            if is_wrong {
                return refused(format!("LoadBalancersCapability.{wrong}"));
            }
        }
    }
    for (of, field, number, legal) in numbers {
        if !legal.contains(&number) {
            let (least, most) = legal.into_inner();
            return refused(format!(
                "{of}Capability.{field} is {number}: use {least} to {most}"
            ));
        }
    }
    Ok(())
}

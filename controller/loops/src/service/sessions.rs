//! Follows the provider's processes and declarations, and doubts: a task of the loop, which queues every Service when
//! another process of the provider serves, since it may do what the last one refused.

use std::sync::Arc;

use outrigger_core::service::capability::Capability;

use super::{
    ServiceLb,
    decisions::may_concern,
    states::{ServiceKey, ServiceState},
};
use crate::queue::Priority;
use outrigger_provider::Session;

/// A process of the provider, by its boot ID, and what it declares about load balancers.
pub(super) type ProviderProcess = (Arc<str>, Option<Arc<Capability>>);

fn process(session: &Session) -> ProviderProcess {
    let offered = session.load_balancers.as_ref();
    let capability = offered.map(|offered| Arc::clone(&offered.capability));
    (session.boot_id.clone(), capability)
}

impl ServiceLb {
    /// Queues all Services for the present session, and returns it for [`Self::follow_sessions`].
    pub(super) fn begin_session(&self) -> Option<ProviderProcess> {
        let present = self.provider.session().as_deref().map(process);
        if let Some((_, capability)) = &present {
            self.apply(capability.as_deref());
        }
        self.queue_all();
        present
    }

    /// Queues all Services when another process of the provider, or another declaration, appears: it may do what the last
    /// one refused, and serve other Services. Never returns.
    pub(super) async fn follow_sessions(&self, mut last: Option<ProviderProcess>) {
        let follow = |session: &Session| {
            let now = process(session);
            let is_other = last.as_ref() != Some(&now);
            if is_other {
                self.apply(now.1.as_deref());
            }
            if last.is_some() {
                // The nodes may have changed while there was no session.
                self.rollout.queue_without_targets();
            }
            // And the last answers may have come right before: their record on the Lease waits for a session.
            self.lease.progressed();
            if is_other {
                self.queue_all();
            }
            last = Some(now);
        };
        self.provider.each_session(follow).await;
    }

    /// Applies the declaration of another process, or another declaration.
    fn apply(&self, capability: Option<&Capability>) {
        if let Some(capability) = capability {
            self.rollout.apply_rules(&capability.targets);
        }
        let states = &self.decisions.states;
        self.decisions.services.for_each(|service| {
            if may_concern(service) {
                let changed = |state: &mut ServiceState| {
                    state.progress.provider_changed(service, capability);
                };
                states.with(&ServiceKey::of(service), changed);
            }
        });
    }

    /// Ensures each Service once whenever nothing that was known is to be believed. Never returns.
    pub(super) async fn follow_doubts(&self) {
        let mut doubts = self.doubts.clone();
        while doubts.changed().await.is_ok() {
            // Otherwise the Lease would speak for load balancers that may have other targets.
            self.lease.doubt().await;
            for key in self.decisions.keys(may_concern) {
                self.decisions.states.with(&key, ServiceState::doubt);
            }
            self.queue_all();
        }
        std::future::pending::<()>().await;
    }

    /// Queues every Service that a provider may serve.
    fn queue_all(&self) {
        let keys = self.decisions.keys(may_concern).into_iter();
        for key in keys.chain(self.decisions.states.orphaned()) {
            self.queue.add(key, Priority::Bulk);
        }
    }
}

//! Follows the provider's processes and declarations, and doubts: a task of the loop, which asks another process about what
//! the last one refused.

use std::sync::Arc;

use outrigger_core::service::{
    capability::Capability,
    ownership::{Ownership, is_not_managed},
};
use tokio::sync::watch;

use super::{
    decisions::{Decisions, may_concern},
    lease_targets::LeaseTargets,
    rollout::Rollout,
    states::{ServiceKey, ServiceState},
};
use crate::queue::{Priority, Queue};
use outrigger_kube::watch::Resync;
use outrigger_provider::{Provider, Session};

/// The sessions with the provider.
pub(super) struct Sessions {
    pub(super) decisions: Arc<Decisions>,
    pub(super) rollout: Arc<Rollout>,
    pub(super) provider: Provider,
    pub(super) lease: Arc<LeaseTargets>,
    pub(super) queue: Queue<ServiceKey>,
    pub(super) doubts: watch::Receiver<Option<Resync>>,
}

/// A process of the provider, and what it declares about load balancers.
#[derive(PartialEq)]
pub(super) struct ProviderProcess {
    boot_id: Box<str>,
    capability: Option<Arc<Capability>>,
}

impl ProviderProcess {
    fn of(session: &Session) -> Self {
        Self {
            boot_id: session.boot_id.clone(),
            capability: session
                .load_balancers
                .as_ref()
                .map(|offered| Arc::clone(&offered.capability)),
        }
    }
}

impl Sessions {
    /// Queues all Services for the present session, and returns it for [`Self::run`].
    pub(super) fn begin(&self) -> Option<ProviderProcess> {
        let session = self.provider.session();
        let declared = session.as_deref().map(ProviderProcess::of);
        if let Some(declared) = &declared {
            self.apply(None, declared);
        }
        self.queue_all();
        declared
    }

    /// Requeues all Services when another process of the provider, or another declaration, appears: it may do what
    /// the last one refused, and serve other Services. Never returns.
    pub(super) async fn run(&self, mut last: Option<ProviderProcess>) {
        let follow = |session: &Session| {
            let now = ProviderProcess::of(session);
            let is_other = last.as_ref() != Some(&now);
            if is_other {
                self.apply(last.as_ref(), &now);
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

    /// Applies the provider's declaration `now`, which replaces `before`. A new process may manage
    /// those load balancers that the last one did not.
    fn apply(&self, before: Option<&ProviderProcess>, now: &ProviderProcess) {
        if let Some(capability) = &now.capability {
            self.rollout.apply_rules(&capability.targets);
        }
        let states = &self.decisions.states;
        states.provider_changed();
        let is_new = before.is_none_or(|before| before.boot_id != now.boot_id);
        let Some(capability) = now.capability.as_ref().filter(|_| is_new) else {
            return;
        };
        let in_doubt = self.decisions.keys(|service| {
            is_not_managed(service)
                && Ownership::of(service, Some(capability)) == Ownership::Provide
        });
        for key in in_doubt {
            states.with(&key, ServiceState::doubt);
        }
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

//! Conditions and events on Services that wait for an absent provider.

use std::{sync::Arc, time::Duration};

use outrigger_core::service::{capability::Capability, plan::Progress};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{ServiceLb, event_handlers::ServiceKey};
use crate::{provider::ProviderState, queue::Priority};

/// For how long no provider serves before Services say that they wait for it. Shorter than the time
/// after which the leader gives its lease up.
const TOLD_AFTER: Duration = Duration::from_secs(30);

/// How often Services are looked for that wait since.
const LOOK: Duration = Duration::from_secs(10);

impl ServiceLb {
    /// Says on each Service that a user created, changed or deleted that it waits for the provider, once
    /// that has been away for a while. Never returns.
    pub(super) async fn tell_of_absence(&self) {
        let mut state = self.parts.provider.state();
        let mut known = self.capability();
        loop {
            // The sender lives in the provider's handle.
            let _ = state.wait_for(ProviderState::serves).await;
            known = self.capability().or(known);
            let _ = state.wait_for(|state| !state.serves()).await;
            if timeout(TOLD_AFTER, state.wait_for(ProviderState::serves))
                .await
                .is_ok()
            {
                continue;
            }
            loop {
                if let Some(capability) = &known {
                    self.tell_waiting(capability).await;
                }
                if timeout(LOOK, state.wait_for(ProviderState::serves))
                    .await
                    .is_ok()
                {
                    break;
                }
            }
        }
    }

    pub(super) async fn tell_waiting(&self, capability: &Arc<Capability>) {
        let inputs = self.inputs_of(Arc::clone(capability));
        let waiting = self.among_services_on(&inputs, |progress: &Progress, service, facts| {
            let now = self.now();
            progress.waits_for_provider(now, service, facts).is_some()
        });
        let mut told = 0;
        for key in waiting {
            told += usize::from(self.tell_one(&key, capability).await);
        }
        if told > 0 {
            warn!(services = told, "Services wait for the provider");
        }
    }

    fn provider_serves(&self) -> bool {
        self.parts.provider.state().borrow().serves()
    }

    async fn tell_one(&self, key: &ServiceKey, capability: &Arc<Capability>) -> bool {
        let Some(service) = self.live(key) else {
            return false;
        };
        let inputs = self.inputs_of(Arc::clone(capability));
        let said = self.decide(key, &service, &inputs, |progress, now, facts| {
            progress.waits_for_provider(now, &service, facts)
        });
        let Some((patch, events)) = said else {
            return false;
        };
        // It may have come back during the writes before.
        if self.provider_serves() {
            return false;
        }
        match self.writer.write(&service, &patch).await {
            Ok(Some(_)) => {
                if self.provider_serves() {
                    // A call may have been answered during the write.
                    self.queue.add(key.clone(), Priority::Fresh);
                }
                self.tell_all(&service, &events);
                true
            }
            Ok(None) => false,
            Err(error) => {
                // The next look says it.
                debug!(service = &*key.name, %error, "Service not marked as waiting");
                false
            }
        }
    }
}

//! Conditions and events on Services that wait for an absent provider; [`super::reconciler`] ends their wait.

use std::{sync::Arc, time::Duration};

use outrigger_core::service::{capability::Capability, plan::Progress};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{states::ServiceKey, term::ServiceTerm, write::Writes};
use outrigger_provider_client::ProviderState;
use outrigger_runtime::queue::Priority;

/// Absence of the provider after which Services are marked. Shorter than the time after which the leader
/// releases its lease.
const MARK_AFTER: Duration = Duration::from_secs(30);

/// How often Services are listed that began to wait since.
const CHECK_PERIOD: Duration = Duration::from_secs(10);

/// Marks Services while the provider is away.
pub(super) struct Absence {
    pub(super) term: Arc<ServiceTerm>,
    pub(super) writes: Arc<Writes>,
}

impl Absence {
    /// Marks each Service that a user created, changed or deleted as waiting for the provider, once that has
    /// been away for a while. Never returns.
    pub(super) async fn run(&self) {
        let mut state = self.term.provider.state();
        let mut declared = self.term.capability();
        loop {
            // The sender lives in the provider's handle.
            let _ = state.wait_for(ProviderState::serves).await;
            declared = self.term.capability().or(declared);
            let _ = state.wait_for(|state| !state.serves()).await;
            if timeout(MARK_AFTER, state.wait_for(ProviderState::serves))
                .await
                .is_ok()
            {
                continue;
            }
            loop {
                if let Some(capability) = &declared {
                    self.mark_waiting(capability).await;
                }
                if timeout(CHECK_PERIOD, state.wait_for(ProviderState::serves))
                    .await
                    .is_ok()
                {
                    break;
                }
            }
        }
    }

    pub(super) async fn mark_waiting(&self, capability: &Arc<Capability>) {
        let inputs = self.term.inputs_of(Arc::clone(capability));
        let waiting =
            self.term
                .among_services(&inputs, |progress: &mut Progress, service, facts| {
                    let now = self.term.now();
                    progress.waits_for_provider(now, service, facts).is_some()
                });
        let mut marked = 0;
        for key in waiting {
            marked += usize::from(self.mark_one(&key, capability).await);
        }
        if marked > 0 {
            warn!(services = marked, "Services wait for the provider");
        }
    }

    fn provider_serves(&self) -> bool {
        self.term.provider.state().borrow().serves()
    }

    async fn mark_one(&self, key: &ServiceKey, capability: &Arc<Capability>) -> bool {
        let Some(service) = self.term.live(key) else {
            return false;
        };
        let inputs = self.term.inputs_of(Arc::clone(capability));
        let mark = self
            .term
            .decide(key, &service, &inputs, |progress, now, facts| {
                progress.waits_for_provider(now, &service, facts)
            });
        let Some((patch, events)) = mark else {
            return false;
        };
        // It may have come back during the writes before.
        if self.provider_serves() {
            return false;
        }
        match self.writes.writer.write(&service, &patch).await {
            Ok(Some(_)) => {
                if self.provider_serves() {
                    // A call may have been answered during the write.
                    self.term.queue.add(key.clone(), Priority::Fresh);
                }
                self.writes.record_events(&service, &events);
                true
            }
            Ok(None) => false,
            Err(error) => {
                // The next check repeats it.
                debug!(service = &*key.name, %error, "Service not marked as waiting");
                false
            }
        }
    }
}

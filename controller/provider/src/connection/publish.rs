//! Publishes the state of the connection to the handle and the queues.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::{DownCause, ProviderState, Session, Shared};

impl Shared {
    pub(super) fn publish(&self, session: &Arc<Session>, reconnect: bool) {
        self.metrics.connected(session, reconnect);
        self.session.send_replace(Some(Arc::clone(session)));
    }

    pub(super) fn withdraw(&self) {
        self.metrics.disconnected();
        self.session.send_replace(None);
    }

    /// Returns true if `sent` is the current UID of the cluster.
    pub(super) fn is_current_uid(&self, sent: &str) -> bool {
        self.cluster_uid.borrow().as_sent() == sent
    }

    pub(super) fn degraded(&self, reason: &str) {
        let reason = reason.into();
        self.enter(ProviderState::Degraded { reason });
    }

    pub(super) fn down(&self, cause: DownCause, reason: &str) {
        self.enter(ProviderState::Down {
            cause,
            reason: reason.into(),
            since: Instant::now(),
        });
    }

    /// Goes over to the state `next`; a provider that is down already stays so since the same time. Logs it once;
    /// while only the reason changes, each reason of an outage once a minute at most.
    pub(super) fn enter(&self, mut next: ProviderState) {
        self.state.send_if_modified(|state| {
            if let (ProviderState::Down { since, .. }, ProviderState::Down { since: next, .. }) =
                (&*state, &mut next)
            {
                *next = *since;
            }
            if *state == next {
                return false;
            }
            let is_another = state.as_str() != next.as_str() || state.cause() != next.cause();
            let is_down = matches!(next, ProviderState::Down { .. });
            let is_new_reason = is_down
                && next
                    .reason()
                    .is_some_and(|why| self.repeats.due(why).is_some());
            if is_another || is_new_reason {
                announce(state, &next);
            }
            if is_another {
                self.metrics.state_changed(&next);
            }
            self.metrics.state(&next);
            *state = next;
            true
        });
    }
}

fn announce(before: &ProviderState, now: &ProviderState) {
    match now {
        ProviderState::Connecting => {}
        ProviderState::Starting => info!("provider starting; queues wait"),
        ProviderState::Ready => {
            if let ProviderState::Down { since, .. } = before {
                info!(after = ?since.elapsed(), "provider ready");
            } else {
                info!("provider ready");
            }
        }
        ProviderState::Degraded { reason } => warn!(error = %reason, "provider degraded"),
        ProviderState::Down { reason, .. } => warn!(error = %reason, "provider down; queues wait"),
    }
}

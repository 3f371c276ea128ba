//! How the provider is, as queues, probes and people see it.

use std::{fmt, sync::Arc};

use tokio::time::Instant;
use tracing::{info, warn};

use super::{Session, Shared};

/// How the provider is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProviderState {
    /// The first connection is being made.
    #[default]
    Connecting,
    /// Connected, but the provider reports that it is not ready yet.
    Starting,
    /// Serves.
    Ready,
    /// Serves, but errors are to be expected.
    Degraded {
        /// For people.
        reason: Arc<str>,
    },
    /// Does not serve. Retried for ever; no action on the connection is needed.
    Down {
        /// The kind of trouble.
        cause: DownCause,
        /// For people: what happened, and what to do where something can be done.
        reason: Arc<str>,
        /// Since when, through all reasons.
        since: Instant,
    },
}

impl ProviderState {
    /// Returns true if queues may send work.
    pub const fn serves(&self) -> bool {
        matches!(self, Self::Ready | Self::Degraded { .. })
    }

    /// The reason that the provider does not serve well, if any.
    pub fn reason(&self) -> Option<&Arc<str>> {
        match self {
            Self::Degraded { reason } | Self::Down { reason, .. } => Some(reason),
            Self::Connecting | Self::Starting | Self::Ready => None,
        }
    }

    /// The kind of trouble, if the provider is down.
    pub const fn cause(&self) -> Option<DownCause> {
        match self {
            Self::Down { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    pub(super) const LABELS: [&'static str; 5] =
        ["connecting", "starting", "ready", "degraded", "down"];

    /// The value of the metric's label `state`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Degraded { .. } => "degraded",
            Self::Down { .. } => "down",
        }
    }
}

impl fmt::Display for ProviderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Some(reason) => write!(f, "{}: {reason}", self.as_str()),
            None => f.write_str(self.as_str()),
        }
    }
}

/// Why the provider is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DownCause {
    /// Nothing to connect to, or the connection was lost.
    Disconnected,
    /// Connected, but it does not answer.
    Silent,
    /// It does not speak this version of the contract, or not the contract at all.
    Incompatible,
    /// Its answer to the handshake breaks the contract.
    BadHandshake,
    /// It is not the provider that `--cloud-provider` names, or not the one it was before.
    WrongName,
    /// The cloud has no cluster id and `--allow-untagged-cloud` is not set. Whoever starts the
    /// controller ends it (exit code 255) when this is the answer to the first handshake.
    NoClusterId,
    /// It reports that it must be restarted.
    Broken,
}

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

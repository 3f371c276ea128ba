//! How the provider is, as queues, probes and people see it, and its own word for that.
//!
//! The connection and its heartbeat change it; gates of queues, `/readyz`, metrics and the election read it. An outage
//! keeps the time of its beginning, whatever its reason becomes.

use std::{collections::HashSet, fmt, sync::Arc};

use outrigger_api::{
    MethodRequest,
    v1::{self, CallClass, Readiness},
};
use outrigger_core::text;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Error, Session, Shared, call::send};

/// Dependencies, and quotas, that are looked at.
const MAX_ENTRIES: usize = 32;
/// Names of them, in bytes.
const MAX_NAME: usize = 63;

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

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    pub(super) cause: DownCause,
    /// For people: what happened, and what to do where something can be done.
    pub(super) reason: String,
}

impl Outage {
    pub(super) fn new(cause: DownCause, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { cause, reason }
    }

    pub(super) fn disconnected(reason: impl Into<String>) -> Self {
        Self::new(DownCause::Disconnected, reason)
    }

    pub(super) fn silent(reason: impl Into<String>) -> Self {
        Self::new(DownCause::Silent, reason)
    }

    /// Returns true if a provider answers that is not accepted.
    pub(super) const fn is_refusal(&self) -> bool {
        !matches!(self.cause, DownCause::Disconnected | DownCause::Silent)
    }
}

impl Shared {
    pub(super) fn withdraw(&self) {
        self.metrics.disconnected();
        self.session.send_replace(None);
    }

    /// Asks the provider how it is, and keeps the parts of its answer that are within the limits.
    pub(super) async fn get_status(
        &self,
        session: &Session,
    ) -> Result<(v1::GetStatusResponse, ProviderState), Error> {
        let method = v1::GetStatusRequest::METHOD;
        let call = session.channel().unary(v1::GetStatusRequest {});
        let mut status = send(&self.metrics, method, call).await?;
        let state = read(&mut status);
        Ok((status, state))
    }

    pub(super) fn degraded(&self, reason: &str) {
        let reason = reason.into();
        self.enter(ProviderState::Degraded { reason });
    }

    /// Ends the session, and says why there is none.
    pub(super) fn down(&self, outage: Outage) {
        self.enter(ProviderState::Down {
            cause: outage.cause,
            reason: outage.reason.into(),
            since: Instant::now(),
        });
        self.withdraw();
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

/// Reads an answer. Its parts stay with texts fit for a page, and without those beyond the limits: a status must not cost
/// the connection.
fn read(status: &mut v1::GetStatusResponse) -> ProviderState {
    status.dependencies.truncate(MAX_ENTRIES);
    for part in &mut status.dependencies {
        part.name = text::cut(&part.name, MAX_NAME);
        part.message = text::message(&part.message);
    }
    status.quotas.truncate(MAX_ENTRIES);
    let mut names = HashSet::new();
    // Two of one name would be one metric with two values.
    status.quotas.retain_mut(|quota| {
        quota.name = text::cut(&quota.name, MAX_NAME);
        !quota.name.is_empty() && names.insert(quota.name.clone())
    });
    match status.readiness() {
        Readiness::Starting => ProviderState::Starting,
        Readiness::Ready => ProviderState::Ready,
        Readiness::Unspecified | Readiness::Degraded => ProviderState::Degraded {
            reason: why(status, "the provider says that it is degraded"),
        },
        Readiness::Broken => ProviderState::Down {
            cause: DownCause::Broken,
            reason: why(status, "the provider says that it has to be restarted"),
            since: Instant::now(),
        },
    }
}

/// Returns true if the provider names the calls that each dependency which is not READY concerns, and those about instances
/// are not among them.
pub(super) fn spares_instances(status: &v1::GetStatusResponse) -> bool {
    let spares = |part: &v1::DependencyStatus| {
        let mut classes = part.call_classes().peekable();
        let concerns = [CallClass::Unspecified, CallClass::All, CallClass::Instances];
        classes.peek().is_some() && !classes.any(|class| concerns.contains(&class))
    };
    let parts = status.dependencies.iter();
    let mut failing = parts.filter(|part| part.readiness() != Readiness::Ready);
    failing.next().is_some_and(spares) && failing.all(spares)
}

fn why(status: &v1::GetStatusResponse, summary: &str) -> Arc<str> {
    let parts = status.dependencies.iter();
    let broken = parts.filter(|part| part.readiness() != Readiness::Ready);
    let parts: Vec<String> = broken
        .map(|part| match &*part.message {
            "" => part.name.clone(),
            message => format!("{}: {message}", part.name),
        })
        .collect();
    if parts.is_empty() {
        return summary.into();
    }
    text::message(&format!("{summary} ({})", parts.join("; "))).into()
}

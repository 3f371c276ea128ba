//! Parses `GetStatus` heartbeats.

use std::{collections::HashSet, sync::Arc};

use outrigger_api::v1::{self, CallClass, Readiness};
use outrigger_core::text;
use tokio::time::Instant;

use super::{DownCause, ProviderState};

/// Dependencies, and quotas, that are looked at.
const MAX_ENTRIES: usize = 32;
/// Names, in bytes.
const MAX_NAME: usize = 63;

/// Reads an answer. Its parts stay with texts fit for a page, and without those beyond the limits: a status must not cost the
/// connection.
pub(super) fn read(status: &mut v1::GetStatusResponse) -> ProviderState {
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

/// Returns true if the provider names the calls that each dependency which is not READY concerns, and those about instances are
/// not among them.
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

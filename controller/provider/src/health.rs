//! Parses `GetStatus` heartbeats.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_api::v1::{self, Readiness};
use outrigger_core::text;
use tokio::time::Instant;

use super::{DownCause, ProviderState};

/// Dependencies, and quotas, that are looked at.
const MAX_ENTRIES: usize = 32;
/// Names, in bytes.
const MAX_NAME: usize = 63;

/// The provider's last report; empty before its first answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderHealth {
    /// The parts that its readiness is made of; at most 32.
    pub dependencies: Vec<Dependency>,
    /// Quotas of the cloud; at most 32.
    pub quotas: Vec<Quota>,
}

/// One thing that the provider depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Short and stable.
    pub name: Box<str>,
    /// True if the component works.
    pub ready: bool,
    /// Why not, for people.
    pub message: Box<str>,
    /// When it last worked, by the provider's clock.
    pub last_success: Option<Timestamp>,
}

/// One budget that the cloud grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Short and stable: a metric label.
    pub name: Box<str>,
    /// Granted.
    pub limit: u64,
    /// Left of it.
    pub remaining: u64,
}

/// Reads an answer. Too many parts are cut, for a status must not cost the connection.
pub(super) fn read(status: &v1::GetStatusResponse) -> (ProviderState, ProviderHealth) {
    let dependencies = status.dependencies.iter().take(MAX_ENTRIES);
    let health = ProviderHealth {
        dependencies: dependencies
            .map(|dependency| Dependency {
                name: text::cut(&dependency.name, MAX_NAME).into(),
                ready: dependency.readiness() == Readiness::Ready,
                message: text::message(&dependency.message).into(),
                last_success: dependency.last_success.as_ref().and_then(timestamp),
            })
            .collect(),
        quotas: read_quotas(&status.quotas),
    };
    let state = match status.readiness() {
        Readiness::Starting => ProviderState::Starting,
        Readiness::Ready => ProviderState::Ready,
        Readiness::Unspecified | Readiness::Degraded => ProviderState::Degraded {
            reason: why(&health, "the provider says that it is degraded"),
        },
        Readiness::Broken => ProviderState::Down {
            cause: DownCause::Broken,
            reason: why(&health, "the provider says that it has to be restarted"),
            since: Instant::now(),
        },
    };
    (state, health)
}

fn read_quotas(quotas: &[v1::QuotaStatus]) -> Vec<Quota> {
    let mut read: Vec<Quota> = Vec::new();
    for quota in quotas.iter().take(MAX_ENTRIES) {
        let name = text::cut(&quota.name, MAX_NAME);
        // Two of one name would be one metric with two values.
        if name.is_empty() || read.iter().any(|other| *other.name == *name) {
            continue;
        }
        read.push(Quota {
            name: name.into(),
            limit: quota.limit,
            remaining: quota.remaining,
        });
    }
    read
}

fn why(health: &ProviderHealth, summary: &str) -> Arc<str> {
    let broken = health.dependencies.iter().filter(|part| !part.ready);
    let parts: Vec<String> = broken
        .map(|part| match &*part.message {
            "" => part.name.to_string(),
            message => format!("{}: {message}", part.name),
        })
        .collect();
    if parts.is_empty() {
        return summary.into();
    }
    text::message(&format!("{summary} ({})", parts.join("; "))).into()
}

/// A protobuf timestamp, if it is one.
pub(super) fn timestamp(raw: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(raw.seconds, raw.nanos).ok()
}

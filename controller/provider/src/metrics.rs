//! Metrics of the provider, of any vendor: calls, connection, state, pauses and quotas.

use std::{sync::atomic::AtomicU64, time::Duration};

use outrigger_api::v1::{ErrorReason, QuotaStatus};
use outrigger_core::cluster_uid::ClusterUid;
use outrigger_runtime::{metric_families, telemetry::Labelled};
use prometheus_client::metrics::{
    counter::Counter,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

use super::{Error, ProviderState, Session, error};

// 1 ms to 2 min: from a provider that answers out of its cache to the longest deadline.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

metric_families! {
    /// All metrics of the provider, `outrigger_provider_…`. Labels come from closed sets, except names that the
    /// provider chooses: these are bounded in number and replaced, never added to.
    pub struct ProviderMetrics {
        cluster_uid: Labelled<1, Gauge> = Labelled::by(["state"]),
            "outrigger_cluster_uid", "1 for what is known of the UID of the cluster";
        pub(super) node_effects_dropped: Counter,
            "outrigger_node_effects_dropped",
            "Events, annotations and conditions of the provider that were not written to Nodes";
        durations: Labelled<3, Histogram> = Labelled::made_by(["rpc", "code", "reason"], durations),
            "outrigger_provider_rpc_duration_seconds", "How long calls to the provider took, by how they ended";
        in_flight: Labelled<1, Gauge> = Labelled::by(["rpc"]),
            "outrigger_provider_rpc_in_flight", "Calls to the provider that have not ended";
        connected: Gauge,
            "outrigger_provider_connected", "Whether a connection is up and a handshake was made on it";
        state: Labelled<1, Gauge> = Labelled::by(["state"]),
            "outrigger_provider_state", "1 for the state that the provider is in";
        paused: Labelled<2, Counter<f64, AtomicU64>> = Labelled::by(["class", "reason"]),
            "outrigger_provider_class_paused_seconds",
            "Pauses of a class of calls that the provider's errors asked for";
        quota_limit: Labelled<1, Gauge<f64, AtomicU64>> = Labelled::by(["quota"]),
            "outrigger_provider_quota_limit", "The cloud's quota, as the provider reports it";
        quota_remaining: Labelled<1, Gauge<f64, AtomicU64>> = Labelled::by(["quota"]),
            "outrigger_provider_quota_remaining",
            "The remaining part of the cloud's quota, as the provider reports it";
        info: Labelled<3, Gauge> = Labelled::by(["name", "version", "minor"]),
            "outrigger_provider_info", "1 for the provider that is connected";
    }
}

impl ProviderMetrics {
    pub(super) fn cluster_uid(&self, uid: &ClusterUid) {
        for state in ClusterUid::STATES {
            let gauge = self.cluster_uid.of([state]);
            gauge.set(i64::from(state == uid.as_str()));
        }
    }

    pub(super) fn started(&self, rpc: &'static str) -> CallInFlight {
        let gauge = self.in_flight.of([rpc]);
        gauge.inc();
        CallInFlight(gauge)
    }

    pub(super) fn ended(&self, rpc: &'static str, took: Duration, error: Option<&Error>) {
        let (code, reason) = error.map_or(("OK", "none"), outcome);
        let histogram = self.durations.of([rpc, code, reason]);
        histogram.observe(took.as_secs_f64());
    }

    pub(super) fn connected(&self, session: &Session) {
        self.connected.set(1);
        self.info.clear();
        let minor = session.minor.to_string();
        let labels = [&*session.name, &session.version, &minor].map(str::to_owned);
        self.info.of(labels).set(1);
    }

    pub(super) fn disconnected(&self) {
        self.connected.set(0);
        self.info.clear();
    }

    pub(super) fn state(&self, now: &ProviderState) {
        for state in ProviderState::LABELS {
            let gauge = self.state.of([state]);
            gauge.set(i64::from(state == now.as_str()));
        }
    }

    pub(super) fn quotas(&self, quotas: &[QuotaStatus]) {
        self.quota_limit.clear();
        self.quota_remaining.clear();
        for quota in quotas {
            let limit = self.quota_limit.of([quota.name.clone()]);
            limit.set(quota.limit as f64);
            let remaining = self.quota_remaining.of([quota.name.clone()]);
            remaining.set(quota.remaining as f64);
        }
    }

    pub(super) fn paused(&self, class: &'static str, reason: &'static str, pause: Duration) {
        let counter = self.paused.of([class, reason]);
        counter.inc_by(pause.as_secs_f64());
    }
}

/// Counts one call for as long as it lives.
pub(super) struct CallInFlight(Gauge);

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Code and reason of an error. A reason that is not of the contract is not a label.
fn outcome(error: &Error) -> (&'static str, &'static str) {
    match error {
        Error::Unavailable { .. } => ("UNAVAILABLE", "not_connected"),
        Error::Timeout { .. } => ("DEADLINE_EXCEEDED", "timeout"),
        Error::ConnectionLost { .. } => ("UNAVAILABLE", "connection_lost"),
        Error::Unexplained { code, .. } => (outrigger_api::code_name(*code), "unexplained"),
        Error::Refused {
            reason: ErrorReason::Unspecified,
            ..
        } => ("UNKNOWN", "unknown_reason"),
        Error::Refused { reason, .. } => {
            let code = outrigger_api::code_of(*reason);
            (outrigger_api::code_name(code), error::reason_name(*reason))
        }
        Error::Malformed { .. } | Error::ReplyTooLarge { .. } | Error::Unusable(_) => {
            ("OK", "malformed")
        }
        Error::Cancelled { .. } => ("CANCELLED", "cancelled"),
        // These calls were never made.
        Error::Fenced { .. } | Error::Outdated { .. } | Error::Unidentified { .. } => {
            ("ABORTED", "not_sent")
        }
        Error::InvalidService { .. } => ("INVALID_ARGUMENT", "not_sent"),
        Error::TooLarge { .. } => ("RESOURCE_EXHAUSTED", "too_large"),
        Error::NotOffered { .. } => ("UNIMPLEMENTED", "not_sent"),
        Error::NotServed { .. } => ("UNIMPLEMENTED", "not_served"),
    }
}

//! Metrics of the provider, of any vendor.

use std::{sync::Arc, time::Duration};

use outrigger_core::cluster_uid::ClusterUid;
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::{Error, LookupPurpose, ProviderHealth, ProviderState, Session, error};

type Labels<const N: usize> = [(&'static str, &'static str); N];
type OwnLabels<const N: usize> = [(&'static str, String); N];
/// Buckets of the sizes of batches.
const BATCH_SIZES: [f64; 9] = [1., 2., 5., 10., 20., 50., 100., 200., 500.];

type Durations = Family<Labels<3>, Histogram, fn() -> Histogram>;

/// All metrics of the provider adapter. Labels come from closed sets, except names that the
/// provider chooses: these are bounded in number and replaced, never added to.
#[derive(Clone, Debug)]
pub struct ProviderMetrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    durations: Durations,
    in_flight: Family<Labels<1>, Gauge>,
    connected: Gauge,
    state: Family<Labels<1>, Gauge>,
    state_changes: Family<Labels<1>, Counter>,
    reconnects: Counter,
    paused: Family<Labels<2>, Counter<f64, std::sync::atomic::AtomicU64>>,
    quota_limit: Family<OwnLabels<1>, Gauge<f64, std::sync::atomic::AtomicU64>>,
    quota_remaining: Family<OwnLabels<1>, Gauge<f64, std::sync::atomic::AtomicU64>>,
    info: Family<OwnLabels<3>, Gauge>,
    strays: Counter,
    node_effects_dropped: Counter,
    asked: Family<Labels<1>, Counter>,
    batched: Histogram,
    routes_batched: Histogram,
    routes_refused: Counter,
    volumes_batched: Histogram,
    node_set_syncs: Family<Labels<1>, Counter>,
    cluster_uid: Family<Labels<1>, Gauge>,
}

impl ProviderMetrics {
    /// Registers the families, `outrigger_provider_…`.
    pub fn register(registry: &mut Registry) -> Self {
        // 1 ms to 2 min: from a provider that answers out of its cache to the longest deadline.
        let durations: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 18));
        let families = Families {
            durations: Family::new_with_constructor(durations),
            in_flight: Family::default(),
            connected: Gauge::default(),
            state: Family::default(),
            state_changes: Family::default(),
            reconnects: Counter::default(),
            paused: Family::default(),
            quota_limit: Family::default(),
            quota_remaining: Family::default(),
            info: Family::default(),
            strays: Counter::default(),
            node_effects_dropped: Counter::default(),
            asked: Family::default(),
            batched: Histogram::new(BATCH_SIZES),
            routes_batched: Histogram::new(BATCH_SIZES),
            routes_refused: Counter::default(),
            volumes_batched: Histogram::new(BATCH_SIZES),
            node_set_syncs: Family::default(),
            cluster_uid: Family::default(),
        };
        registry.register(
            "outrigger_cluster_uid",
            "1 for what is known of the UID of the cluster",
            families.cluster_uid.clone(),
        );
        registry.register(
            "outrigger_node_effects_dropped",
            "Events, annotations and conditions of the provider that were not written to Nodes",
            families.node_effects_dropped.clone(),
        );
        let registry = registry.sub_registry_with_prefix("outrigger_provider");
        registry.register(
            "rpc_duration_seconds",
            "How long calls to the provider took, by how they ended",
            families.durations.clone(),
        );
        registry.register(
            "rpc_in_flight",
            "Calls to the provider that have not ended",
            families.in_flight.clone(),
        );
        registry.register(
            "connected",
            "Whether a connection is up and a handshake was made on it",
            families.connected.clone(),
        );
        registry.register(
            "state",
            "1 for the state that the provider is in",
            families.state.clone(),
        );
        registry.register(
            "state_changes",
            "How often the provider went into a state, or changed what keeps it down",
            families.state_changes.clone(),
        );
        registry.register(
            "reconnects",
            "Connections made after the first",
            families.reconnects.clone(),
        );
        registry.register(
            "class_paused_seconds",
            "Pauses of a class of calls that the provider's errors asked for",
            families.paused.clone(),
        );
        registry.register(
            "quota_limit",
            "The cloud's quota, as the provider reports it",
            families.quota_limit.clone(),
        );
        registry.register(
            "quota_remaining",
            "The remaining part of the cloud's quota, as the provider reports it",
            families.quota_remaining.clone(),
        );
        registry.register(
            "info",
            "1 for the provider that is connected",
            families.info.clone(),
        );
        registry.register(
            "stray_results",
            "Results about objects that were not asked about; ignored",
            families.strays.clone(),
        );
        registry.register(
            "lookup_batch_nodes",
            "Nodes in one batch of lookups",
            families.batched.clone(),
        );
        registry.register(
            "route_batch_routes",
            "Routes in one batch of creations or deletions",
            families.routes_batched.clone(),
        );
        registry.register(
            "volume_batch_volumes",
            "Volumes in one batch of lookups",
            families.volumes_batched.clone(),
        );
        registry.register(
            "refused_routes",
            "Routes of lists that break the contract; left alone",
            families.routes_refused.clone(),
        );
        registry.register(
            "instance_calls",
            "Calls about instances, single pages of lists aside, by what they are for",
            families.asked.clone(),
        );
        registry.register(
            "node_set_syncs",
            "Uploads of the targets of load balancers that the provider took",
            families.node_set_syncs.clone(),
        );
        Self(Arc::new(families))
    }

    pub(super) fn cluster_uid(&self, uid: &ClusterUid) {
        for state in ClusterUid::STATES {
            let gauge = self.0.cluster_uid.get_or_create(&[("state", state)]);
            gauge.set(i64::from(state == uid.as_str()));
        }
    }

    /// One series of each family, for tests of a whole scrape.
    #[cfg(any(test, feature = "fixture"))]
    pub fn sample(&self) {
        drop(self.started("GetStatus"));
        self.ended("GetStatus", Duration::from_millis(1), None);
        self.state(&ProviderState::Ready);
        self.state_changed(&ProviderState::Ready);
        self.asked(LookupPurpose::Lifecycle);
        self.node_set_synced("delta");
        self.cluster_uid(&ClusterUid::Unknown);
        self.paused("instances", "rate_limited", Duration::from_secs(1));
        self.health(&ProviderHealth {
            quotas: vec![super::Quota {
                name: "reads \"per\" second\n".into(),
                limit: 100,
                remaining: 7,
            }],
            ..ProviderHealth::default()
        });
        let labels = ["name", "version", "minor"].map(|name| (name, "\\".to_owned()));
        self.0.info.get_or_create(&labels).set(1);
    }

    pub(super) fn started(&self, rpc: &'static str) -> CallInFlight {
        let gauge = self.0.in_flight.get_or_create_owned(&[("rpc", rpc)]);
        gauge.inc();
        CallInFlight(gauge)
    }

    pub(super) fn ended(&self, rpc: &'static str, took: Duration, error: Option<&Error>) {
        let (code, reason) = error.map_or(("OK", "none"), outcome);
        let labels = [("rpc", rpc), ("code", code), ("reason", reason)];
        self.0
            .durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(super) fn connected(&self, session: &Session, reconnect: bool) {
        self.0.connected.set(1);
        if reconnect {
            self.0.reconnects.inc();
        }
        self.0.info.clear();
        let labels = [
            ("name", session.name.to_string()),
            ("version", session.version.to_string()),
            ("minor", session.minor.to_string()),
        ];
        self.0.info.get_or_create(&labels).set(1);
    }

    pub(super) fn disconnected(&self) {
        self.0.connected.set(0);
        self.0.info.clear();
    }

    pub(super) fn state(&self, now: &ProviderState) {
        for state in ProviderState::LABELS {
            let gauge = self.0.state.get_or_create_owned(&[("state", state)]);
            gauge.set(i64::from(state == now.as_str()));
        }
    }

    pub(super) fn state_changed(&self, now: &ProviderState) {
        let labels = [("state", now.as_str())];
        self.0.state_changes.get_or_create(&labels).inc();
    }

    pub(super) fn health(&self, health: &ProviderHealth) {
        self.0.quota_limit.clear();
        self.0.quota_remaining.clear();
        for quota in &health.quotas {
            let labels = [("quota", quota.name.to_string())];
            self.0
                .quota_limit
                .get_or_create(&labels)
                .set(quota.limit as f64);
            self.0
                .quota_remaining
                .get_or_create(&labels)
                .set(quota.remaining as f64);
        }
    }

    pub(super) fn paused(&self, class: &'static str, reason: &'static str, pause: Duration) {
        let labels = [("class", class), ("reason", reason)];
        self.0
            .paused
            .get_or_create(&labels)
            .inc_by(pause.as_secs_f64());
    }

    pub(super) fn strays(&self, count: usize) {
        self.0.strays.inc_by(count as u64);
    }

    /// So many effects of one answer were left out.
    pub(super) fn node_effects_dropped(&self, effects: usize) {
        self.0.node_effects_dropped.inc_by(effects as u64);
    }

    /// A list of instances, or part of a batch.
    pub(super) fn asked(&self, purpose: LookupPurpose) {
        let labels = [("purpose", purpose.as_str())];
        self.0.asked.get_or_create(&labels).inc();
    }

    pub(super) fn node_set_synced(&self, kind: &'static str) {
        let labels = [("kind", kind)];
        self.0.node_set_syncs.get_or_create(&labels).inc();
    }

    pub(super) fn routes_batched(&self, routes: usize) {
        self.0.routes_batched.observe(routes as f64);
    }

    pub(super) fn volumes_batched(&self, volumes: usize) {
        self.0.volumes_batched.observe(volumes as f64);
    }

    pub(super) fn routes_refused(&self, count: usize) {
        self.0.routes_refused.inc_by(count as u64);
    }

    pub(super) fn batched(&self, purpose: LookupPurpose, nodes: usize) {
        self.asked(purpose);
        self.0.batched.observe(nodes as f64);
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
        Error::Unexplained { code, .. } => (code, "unexplained"),
        Error::Refused { reason, .. } => {
            let code = outrigger_api::code_of(*reason);
            (outrigger_api::code_name(code), error::reason_name(*reason))
        }
        Error::UnknownReason { code, .. } => (code, "unknown_reason"),
        Error::Malformed { .. } | Error::ReplyTooLarge { .. } | Error::Unusable(_) => {
            ("OK", "malformed")
        }
        Error::Cancelled { .. } => ("CANCELLED", "cancelled"),
        // Of calls that were never made.
        Error::Fenced { .. } | Error::Outdated { .. } | Error::Unidentified { .. } => {
            ("ABORTED", "not_sent")
        }
        Error::SourceRanges(_) => ("INVALID_ARGUMENT", "not_sent"),
        Error::TooLarge { .. } => ("RESOURCE_EXHAUSTED", "too_large"),
        Error::NotOffered { .. } => ("UNIMPLEMENTED", "not_sent"),
        Error::NotServed { .. } => ("UNIMPLEMENTED", "not_served"),
    }
}

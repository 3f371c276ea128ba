//! Leader election on a `coordination.k8s.io/v1` Lease (PROC-20 to PROC-27): one [`Elector`], run as a task; other tasks
//! read [`Leadership`] and send commands through the [`Handle`].
//!
//! ```text
//!           GET, POST, PUT                       ┌► watch::Receiver<Leadership> ─► app, loops
//!  Lease ◄──────────────── Elector (core::lease) ┤
//!        ───────────────►     ▲                  └► LeaseTerm::is_valid_now ─► before each write
//!         watch: look again   └─ Handle: step_down, release, annotate, check
//! ```
//!
//! *Losing* the lease is the end of the process, as upstream (PROC-13). *Giving it up* is not: the
//! elector goes on as a standby.
//!
//! A Lease of another cluster is neither made nor claimed: its UID is asked for before.
//!
//! RBAC: `get`, `create`, `update` and `watch` on `leases` of `coordination.k8s.io` in the lock's
//! namespace; all but `create` can be narrowed to the lock's name. Without `watch` the election
//! works, but fail-over takes up to 2.2 retry periods longer.

use std::sync::Arc;

use outrigger_core::{
    event::{EventContent, ObjectRef},
    lease::Durations,
};
use outrigger_runtime::{metric_families, telemetry::Labelled};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use crate::watch::Sight;

mod elector;
mod handle;
mod identity;
mod lease;

pub use elector::Elector;
pub use handle::{Handle, Leadership, LeaseTerm, NotLeading};
pub use identity::{ProcessIdentity, host};
pub(crate) use lease::LeaseObject;
pub use outrigger_core::lease::Lost;

/// The lock, and the identity that contends for it.
#[derive(Clone, Debug)]
pub struct LeaderConfig {
    /// `--leader-elect-resource-namespace`.
    pub namespace: String,
    /// `--leader-elect-resource-name`; also the metrics' label.
    pub name: String,
    /// The identity that contends.
    pub identity: Arc<ProcessIdentity>,
    /// How long things take.
    pub durations: Durations,
    /// The cluster that must have the Lease, and the watches that list again when etcd has gone back in time.
    pub sight: Sight,
}

/// Reason of the events about the Lease (PROC-26).
const EVENT_REASON: &str = "LeaderElection";

/// Takes the events about the Lease: `<identity> became leader`, `<identity> stopped leading`, or what an operator has
/// to end. It must not wait.
pub type OnEvent = Arc<dyn Fn(ObjectRef, EventContent) + Send + Sync>;

metric_families! {
    /// Upstream's `leader_election_*` (M-60), by the name of the lease; a lock's series appear with its elector.
    pub struct LeaderMetrics {
        leading: Labelled<1, Gauge> = Labelled::by(["name"]),
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name";
        slow: Labelled<1, Counter> = Labelled::by(["name"]),
            "leader_election_slowpath",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name";
    }
}

impl LeaderMetrics {
    fn leading(&self, lease: &str, leading: bool) {
        let gauge = self.leading.of([lease.to_owned()]);
        gauge.set(i64::from(leading));
    }
}

#[cfg(test)]
pub(crate) mod tests;

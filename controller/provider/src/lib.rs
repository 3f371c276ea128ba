//! The provider side: one connection, its state, and typed calls over it.
//!
//! ```text
//!              ┌ connection: dial ─► handshake ─► GetStatus … (again, for ever)
//!  Provider ───┤        publishes its state and the session
//!              ├ lookup: batch ───────┐
//!              └ load_balancers, ─────┴─► admission ─► call ─► channel ─► checked answers
//!                routes, volumes                         └─ node_sets: targets by name
//! ```
//!
//! Never here: Kubernetes, decisions about nodes, and trust in an answer of the provider.

mod admission;
mod batch;
mod call;
mod channel;
mod connection;
mod error;
#[cfg(any(test, feature = "fixture"))]
#[doc(hidden)]
pub mod fixture;
mod handshake;
mod instances;
mod load_balancers;
mod lookup;
mod metrics;
mod node_sets;
mod provider;
mod routes;
mod session;
mod socket;
mod state;
mod transport;
mod volumes;
mod wire;

use std::time::Duration;

use outrigger_core::effects::GrantedPrefixes;

pub use admission::Slot;
pub use error::Error;
pub use instances::Instances;
pub use load_balancers::{LoadBalancers, OwnedLoadBalancer, Owner, PlannedChange};
pub use lookup::{BatchAnswer, LookupAnswer};
pub use metrics::ProviderMetrics;
pub use outrigger_api::v1::PlanOperation;
pub use provider::Provider;
pub use routes::{RouteAnswer, Routes};
pub use session::{
    HandshakeResult, InstancesCapability, LoadBalancersCapability, RoutesCapability, Session,
};
pub use socket::{Endpoint, ProviderSocket};
pub use state::{DownCause, ProviderState};
pub use transport::{ByteStream, Connect, Connecting};
pub use volumes::{VolumeLookup, Volumes, VolumesCapability};

use provider::Shared;

/// Facts for the provider about its caller, and limits of the calls to it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `--cloud-provider`: a provider of another name is refused.
    pub expected_name: Option<String>,
    /// `--allow-untagged-cloud`: a cloud without cluster id is accepted.
    pub allow_untagged: bool,
    /// `--provider-effect-prefixes`: annotations and conditions that may be written for it.
    pub effect_prefixes: GrantedPrefixes,
    /// Name of this program.
    pub controller_name: String,
    /// Its version.
    pub controller_version: String,
    /// `gitVersion` of the API server; empty if not known.
    pub kubernetes_version: String,
    /// The cluster that all calls are about.
    pub cluster: Cluster,
    /// `--cluster-uid`, else the UID of `kube-system`; empty: not known. See [`Provider::set_cluster_uid`].
    pub cluster_uid: String,
    /// True to begin as a standby; see [`Provider::set_standby`].
    pub standby: bool,
}

/// Facts of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// `--cluster-name`.
    pub name: String,
    /// `--cluster-cidr`: none, one, or one for each IP family; canonical.
    pub pod_cidrs: Vec<String>,
    /// `--service-cluster-ip-range`, in the same form.
    pub service_cidrs: Vec<String>,
}

/// The purpose of a lookup: the wanted detail, and how old the answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookupPurpose {
    /// To initialise a node: all but the power state, as it is now.
    Initialization,
    /// To decide whether a node that is not ready still has a machine: existence and power state,
    /// as they are now.
    Lifecycle,
    /// Keeps an initialised node in sync: every field except the power state.
    Refresh {
        /// Out of the provider's caches, if they are no older.
        max_staleness: Duration,
    },
}

impl LookupPurpose {
    /// Zero: the cloud is to be asked now.
    const fn max_staleness(self) -> Duration {
        match self {
            Self::Initialization | Self::Lifecycle => Duration::ZERO,
            Self::Refresh { max_staleness } => max_staleness,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

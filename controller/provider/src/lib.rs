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
//! The binary makes one [`Provider`] and spawns its work; each loop gets a clone that its lease term fences. A loop waits
//! for a [`Session`] that offers what it needs, and calls. A call ends in a checked answer or in an [`Error`], whose class
//! decides what follows; an error, a missing result and a malformed one are never an absence. Nothing is retried here, with
//! three exceptions: a batch that fails because of its request is asked about by halves, a Node that was not answered in
//! time alone, and a node set that the provider has lost is sent once more.
//!
//! Never here: Kubernetes, decisions about Nodes, and trust in an answer of the provider.
//!
//! ```no_run
//! use outrigger_core::{effects::GrantedPrefixes, node::NodeView};
//! use outrigger_provider::{
//!     Cluster, LookupPurpose, Options, Provider, ProviderMetrics, ProviderSocket,
//! };
//! use outrigger_runtime::fence::Fence;
//! use std::{error::Error, sync::Arc};
//! use tokio_util::sync::CancellationToken;
//!
//! async fn look_up(node: Arc<NodeView>) -> Result<(), Box<dyn Error>> {
//!     let options = Options {
//!         expected_name: Some("example".to_owned()),
//!         allow_untagged: false,
//!         effect_prefixes: GrantedPrefixes::default(),
//!         controller_name: "example-controller".to_owned(),
//!         controller_version: "v1.0.0".to_owned(),
//!         kubernetes_version: String::new(),
//!         cluster: Cluster::default(),
//!         cluster_uid: "uid-1".to_owned(),
//!         standby: false,
//!     };
//!     let endpoint = "unix:///run/outrigger/provider.sock".parse()?;
//!     let socket = Box::new(ProviderSocket::new(endpoint, [65_532]));
//!     let end = CancellationToken::new();
//!     let (provider, work) = Provider::new(options, socket, ProviderMetrics::default(), end.clone());
//!     tokio::spawn(work);
//!
//!     // In a lease term: the fence is asked right before each request.
//!     let provider = provider.fenced(Fence::new(|| true, &end));
//!     provider.wait_until_serving().await;
//!     match provider.instances().look_up(node, LookupPurpose::Lifecycle).await.result {
//!         Ok(lookup) => println!("{lookup:?}"),
//!         Err(error) => println!("{error}; again: {:?}", error.class().requeue()),
//!     }
//!     end.cancel();
//!     Ok(())
//! }
//! ```

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
pub use lookup::{LookupAnswer, NodeAnswer};
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

//! The provider side: one connection, its state, and typed calls over it.
//!
//! ```text
//!              ┌ connection: dial ─► handshake ─► GetStatus … (again, for ever)
//!  Provider ───┤        publishes its state and the session
//!              ├ lookup: batches ─────┐
//!              ├ routes: batches ─────┤
//!              ├ volumes: batches ────┤
//!              └ load_balancers, list ┴─► admission ─► call ─► checked answers
//!                                                       └─ node_sets: targets by name
//! ```
//!
//! Never here: Kubernetes, decisions about nodes, and trust in an answer of the provider.

mod admission;
mod batch;
mod call;
mod connection;
mod details;
mod dump;
mod endpoint;
mod error;
#[cfg(any(test, feature = "fixture"))]
#[doc(hidden)]
pub mod fixture;
mod footprint;
mod gather;
mod handshake;
mod health;
mod instances;
mod list;
mod load_balancers;
mod lookup;
mod metrics;
mod node_effects;
mod node_sets;
mod preconditions;
mod raw;
mod routes;
mod session;
mod socket;
mod state;
mod transport;
mod volumes;
mod wire;

use std::{fmt, future, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    time::sleep_until,
};
use tokio_util::sync::CancellationToken;

use outrigger_core::{cluster_uid::ClusterUid, effects::GrantedPrefixes};

use outrigger_runtime::{fence::Fence, telemetry::Repeats};

pub use batch::BatchAnswer;
pub use endpoint::{Endpoint, EndpointError};
pub use error::Error;
pub use health::{Dependency, ProviderHealth, Quota};
pub use list::WantedInstances;
pub use load_balancers::{
    ChangeAction, EnsureInput, OwnedLoadBalancer, Owner, PlanOperation, PlannedChange, Slot,
    TargetsUpdate,
};
pub use lookup::LookupAnswer;
pub use metrics::ProviderMetrics;
pub use routes::RouteAnswer;
pub use session::{
    HandshakeResult, InstancesCapability, LoadBalancersCapability, RoutesCapability, Session,
};
pub use socket::ProviderSocket;
pub use state::{DownCause, ProviderState};
pub use transport::{ByteStream, Connect, Connecting};
pub use volumes::{VolumeLookup, VolumePurpose, VolumesCapability};

use admission::{Admission, CallClass};
use batch::{Asked, Batcher};
use call::Renewal;
use connection::Manager;
use lookup::{DoubtedAbsences, NodeLookup};
use node_sets::NodeSets;
use preconditions::Preconditions;
use routes::ChangedRoute;
use volumes::VolumeQuestion;

/// Requests for a renewal of a session that may wait; more would be the same again.
const RENEWALS: usize = 16;

/// Facts for the provider about its caller, and limits of the calls to it.
#[derive(Clone, Debug)]
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
    /// UID of the namespace `kube-system`; empty: not known. See [`Provider::set_cluster_uid`].
    pub cluster_uid: String,
    /// Largest message that is accepted, in bytes.
    pub max_receive_bytes: usize,
    /// Whether to begin as a standby; see [`Provider::set_standby`].
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

/// The purpose of a lookup: its urgency, the wanted detail, and how old the answer may be. Where
/// calls have to wait, the first of these goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookupPurpose {
    /// To initialise a node: all but the power state, as it is now.
    Initialization,
    /// To decide whether a node that is not ready still has a machine: existence and power state,
    /// as they are now.
    Lifecycle,
    /// To keep an initialised node in step: all but the power state.
    Refresh {
        /// Out of the provider's caches, if they are no older.
        max_staleness: Duration,
    },
}

impl LookupPurpose {
    /// The value of the metric's label `purpose`.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Initialization => "initialization",
            Self::Lifecycle => "lifecycle",
            Self::Refresh { .. } => "refresh",
        }
    }

    /// Zero: the cloud is to be asked now.
    const fn max_staleness(self) -> Duration {
        match self {
            Self::Initialization | Self::Lifecycle => Duration::ZERO,
            Self::Refresh { max_staleness } => max_staleness,
        }
    }
}

/// The provider, as the loops see it. Cheap to clone.
///
/// Works from the start: before there is a connection, and whenever there is none, calls end at
/// once with [`Error::Unavailable`]. Loops wait for [`Provider::serving`] before they take keys.
#[derive(Clone)]
pub struct Provider {
    shared: Arc<Shared>,
    lookups: mpsc::UnboundedSender<Asked<NodeLookup>>,
    routes: mpsc::UnboundedSender<Asked<ChangedRoute>>,
    /// By purpose.
    volumes: [mpsc::UnboundedSender<Asked<VolumeQuestion>>; 2],
    preconditions: Preconditions,
}

/// The state that the handle, the connection and the calls share.
struct Shared {
    cluster_name: String,
    cluster_uid: watch::Sender<ClusterUid>,
    allow_untagged: bool,
    state: watch::Sender<ProviderState>,
    session: watch::Sender<Option<Arc<Session>>>,
    health: watch::Sender<ProviderHealth>,
    standby: watch::Sender<bool>,
    renewals: mpsc::Sender<(u64, Renewal)>,
    admission: Arc<Admission>,
    node_sets: NodeSets,
    doubted: DoubtedAbsences,
    dropped_effects: Repeats,
    /// Faults that would be logged with each call or connection.
    repeats: Repeats,
    metrics: ProviderMetrics,
}

impl Provider {
    /// Makes the handle, and the future that does its work: connects, keeps the connection, sends
    /// the batches. The caller spawns that future and owns it; it ends only after `cancel`.
    pub fn new(
        options: Options,
        connector: impl Connect,
        metrics: ProviderMetrics,
        cancel: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        metrics.state(&ProviderState::default());
        metrics.cluster_uid(&ClusterUid::judge(Some(&options.cluster_uid), None));
        let (renewals, requested) = mpsc::channel(RENEWALS);
        let shared = Arc::new(Shared {
            cluster_name: options.cluster.name.clone(),
            cluster_uid: watch::Sender::new(ClusterUid::judge(Some(&options.cluster_uid), None)),
            allow_untagged: options.allow_untagged,
            state: watch::Sender::new(ProviderState::default()),
            session: watch::Sender::new(None),
            health: watch::Sender::new(ProviderHealth::default()),
            standby: watch::Sender::new(options.standby),
            renewals,
            admission: Arc::new(Admission::new(metrics.clone())),
            node_sets: NodeSets::default(),
            doubted: DoubtedAbsences::default(),
            dropped_effects: Repeats::default(),
            repeats: Repeats::default(),
            metrics,
        });
        let (lookups, lookup_batcher) = Batcher::new(&shared);
        let (routes, route_batcher) = Batcher::new(&shared);
        let (admissions, admission_batcher) = Batcher::new(&shared);
        let (labels, label_batcher) = Batcher::new(&shared);
        let manager = Manager::new(
            Arc::clone(&shared),
            options,
            Box::new(connector),
            requested,
            cancel.clone(),
        );
        let run = async move {
            tokio::join!(
                manager.run(),
                lookup_batcher.run(cancel.clone()),
                route_batcher.run(cancel.clone()),
                admission_batcher.run(cancel.clone()),
                label_batcher.run(cancel)
            );
        };
        let provider = Self {
            shared,
            lookups,
            routes,
            volumes: [admissions, labels],
            preconditions: Preconditions::default(),
        };
        (provider, run)
    }

    /// The same provider, called only as long as `fence` allows: right before a request is sent it is
    /// asked once more, a call that still waits ends with [`Error::Fenced`] when it stops, and one in
    /// flight with [`Error::Cancelled`] when it cancels.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Self {
        Self {
            preconditions: self.preconditions.fenced(fence),
            ..self.clone()
        }
    }

    /// The same provider, but a call that `check` refuses right before its request is sent ends with
    /// [`Error::Outdated`]: the object of the call has changed while the call waited. `check` must not
    /// block.
    #[must_use]
    pub fn only_while(&self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            preconditions: self.preconditions.only_while(check),
            ..self.clone()
        }
    }

    /// Sets the UID of the cluster. Calls that change the cloud end with [`Error::Unidentified`] as long as
    /// that is not certain. A change leads to another handshake.
    pub fn set_cluster_uid(&self, uid: ClusterUid) {
        self.shared.metrics.cluster_uid(&uid);
        self.shared.cluster_uid.send_replace(uid);
    }

    /// The cluster's UID, as far as it is known, and changes of it.
    pub fn cluster_uid(&self) -> watch::Receiver<ClusterUid> {
        self.shared.cluster_uid.subscribe()
    }

    /// How the provider is, now and whenever that changes.
    pub fn state(&self) -> watch::Receiver<ProviderState> {
        self.shared.state.subscribe()
    }

    /// The session of the last handshake; `None` while there is no connection.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.shared.session.borrow().clone()
    }

    /// Calls `then` with the session of now and each later one. Never returns.
    pub async fn each_session(&self, mut then: impl FnMut(&Session)) {
        let never = |session: &Session| {
            then(session);
            false
        };
        self.shared.session_that(never).await;
    }

    /// The provider's last report about its dependencies and quotas.
    pub fn health(&self) -> ProviderHealth {
        self.shared.health.borrow().clone()
    }

    /// Waits until the provider serves. Returns at once if it does.
    pub async fn serving(&self) -> Arc<Session> {
        let mut state = self.state();
        loop {
            // The senders live as long as this handle.
            if state.wait_for(ProviderState::serves).await.is_err() {
                return future::pending().await;
            }
            if let Some(session) = self.session() {
                return session;
            }
            // The session goes after the state has changed, so this has happened already.
            let _ = state.changed().await;
        }
    }

    /// Waits until calls about instances are not paused.
    pub async fn instances_unpaused(&self) {
        while let Some(until) = self.shared.admission.paused_until(CallClass::Instances) {
            sleep_until(until).await;
        }
    }

    async fn offering(&self, offers: impl Fn(&Session) -> bool, without: impl FnOnce()) {
        let mut without = Some(without);
        let wanted = |session: &Session| {
            let is_wanted = offers(session);
            if !is_wanted && let Some(without) = without.take() {
                without();
            }
            is_wanted
        };
        self.shared.session_that(wanted).await;
    }

    /// Calls `then` whenever another process answers behind the socket, except the first, or the same one
    /// serves a capability that it had not: what waits for that is tried again. Never returns.
    pub async fn each_restart(&self, mut then: impl FnMut()) {
        let mut known = None;
        let follow = |session: &Session| {
            let now = session.capabilities();
            let Some((boot_id, before)) = known.replace((session.boot_id.clone(), now)) else {
                return;
            };
            let serves_more = before
                .iter()
                .zip(now)
                .any(|(before, now)| !before.1 && now.1);
            if boot_id != session.boot_id || serves_more {
                then();
            }
        };
        self.each_session(follow).await;
    }

    /// A standby makes no calls but its heartbeat, and that each minute instead of each 10 s.
    pub fn set_standby(&self, standby: bool) {
        self.shared.standby.send_replace(standby);
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("state", &*self.shared.state.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;

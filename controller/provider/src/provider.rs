//! The handle of the provider: its state, and the way to calls.

use std::{future, sync::Arc};

use outrigger_api::{
    MethodRequest,
    v1::{GetStatusRequest, GetStatusResponse},
};
use outrigger_core::{
    cluster_uid::ClusterUid,
    effects::{Dropped, Effects, RawEffects},
    node::NodeView,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    Connect, Error, Instances, LoadBalancers, Options, ProviderMetrics, ProviderState, Routes,
    Session, Volumes,
    admission::{Admission, Permit},
    batch::Lookups,
    call::send,
    connection::Manager,
    dump, health,
    load_balancers::LoadBalancerIdentities,
    node_sets::SyncedNodes,
    preconditions::Preconditions,
};
use outrigger_runtime::{fence::Fence, telemetry::Repeats};

/// The provider, as the loops see it. Cheap to clone.
///
/// Works from the start: before there is a connection, and whenever there is none, calls end at
/// once with [`Error::Unavailable`]. Loops wait for [`Provider::wait_until_serving`] before they take keys.
#[derive(Clone)]
pub struct Provider {
    pub(super) shared: Arc<Shared>,
    pub(super) lookups: Lookups,
    pub(super) preconditions: Preconditions,
    /// Those of one lease term.
    pub(super) identities: Arc<LoadBalancerIdentities>,
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
        let shared = Arc::new(Shared {
            cluster_name: options.cluster.name.clone(),
            cluster_uid: watch::Sender::new(ClusterUid::judge(Some(&options.cluster_uid), None)),
            allow_untagged: options.allow_untagged,
            state: watch::Sender::new(ProviderState::default()),
            session: watch::Sender::new(None),
            health: Mutex::default(),
            standby: watch::Sender::new(options.standby),
            admission: Arc::new(Admission::new(metrics.clone())),
            synced_nodes: SyncedNodes::default(),
            dropped_effects: Repeats::default(),
            repeats: Repeats::default(),
            metrics,
        });
        let (lookups, batching) = Lookups::new(&shared, cancel.clone());
        let manager = Manager::new(Arc::clone(&shared), options, Box::new(connector), cancel);
        let run = async move {
            tokio::join!(manager.run(), batching);
        };
        let provider = Self {
            shared,
            lookups,
            preconditions: Preconditions::default(),
            identities: Arc::default(),
        };
        (provider, run)
    }

    /// The same provider, called only as long as `fence` allows: right before a request is sent it is
    /// asked once more, a call that still waits ends with [`Error::Fenced`] when it stops, and one in
    /// flight with [`Error::Cancelled`] when it cancels. It begins without the memory of an earlier lease term.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Self {
        Self {
            preconditions: self.preconditions.fenced(fence),
            identities: Arc::default(),
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

    /// Calls `then` with the current session and each later one. Never returns.
    pub async fn each_session(&self, mut then: impl FnMut(&Session)) {
        let never = |session: &Session| {
            then(session);
            false
        };
        self.shared.session_that(never).await;
    }

    /// Waits until the provider serves. Returns at once if it does.
    pub async fn wait_until_serving(&self) -> Arc<Session> {
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

    /// Calls about instances.
    pub const fn instances(&self) -> Instances<'_> {
        Instances(self)
    }

    /// Calls about load balancers.
    pub const fn load_balancers(&self) -> LoadBalancers<'_> {
        LoadBalancers(self)
    }

    /// Calls about routes.
    pub const fn routes(&self) -> Routes<'_> {
        Routes(self)
    }

    /// Calls about volumes.
    pub const fn volumes(&self) -> Volumes<'_> {
        Volumes(self)
    }

    /// State, session, the status that the provider reports, and pauses; a few lines of text.
    pub fn dump(&self) -> String {
        dump::dump(&self.shared)
    }

    /// Waits until there is a provider that `offers` something; `without` is called once if one does not, for the next
    /// process behind the socket may.
    pub(super) async fn offering(&self, offers: impl Fn(&Session) -> bool, without: impl FnOnce()) {
        let mut without = Some(without);
        let is_eligible = |session: &Session| {
            let is_wanted = offers(session);
            if !is_wanted && let Some(without) = without.take() {
                without();
            }
            is_wanted
        };
        self.shared.session_that(is_eligible).await;
    }

    /// Calls `then` whenever another process answers behind the socket, except the first, or the same one
    /// serves a capability that it had not: what waits for that is tried again. Never returns.
    pub async fn each_restart(&self, mut then: impl FnMut()) {
        let mut last = None;
        let follow = |session: &Session| {
            let now = session.capabilities();
            let Some((boot_id, before)) = last.replace((session.boot_id.clone(), now)) else {
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

    /// [`Shared::admit`] in turn, but not past the stop, and only where the provider declares the method.
    pub(super) async fn admit<M: MethodRequest>(&self) -> Result<(Permit, Arc<Session>), Error> {
        let admitted = async {
            let _turn = self.shared.admission.turn(M::METHOD).await;
            self.shared.admit(M::METHOD).await
        };
        let admitted = self.preconditions.wait(M::METHOD.name, admitted).await?;
        let (permit, session) = admitted?;
        session.offers::<M>()?;
        Ok((permit, session))
    }

    /// The effects in `raw`, of an answer about `node`, that the provider may have. The others are counted, and logged
    /// once a minute.
    pub fn node_effects(&self, node: &NodeView, raw: RawEffects) -> Effects {
        let Some(session) = self.session() else {
            return Effects::default();
        };
        let allowed = session.node_effects.clone().unwrap_or_default();
        let effects = session.effects(raw, &allowed, &node.uid, node);
        self.shared
            .metrics
            .node_effects_dropped(effects.dropped.count());
        self.log_dropped_effects("node", &node.name, &effects.dropped);
        effects
    }

    /// Logs effects of an answer about the object that are not written. One mistake of a provider may concern all
    /// objects of a kind.
    pub fn log_dropped_effects(&self, kind: &str, object: &str, dropped: &Dropped) {
        // Without the capability all are left out, which the session logs.
        let declares = |session: Arc<Session>| session.declares_effects();
        if dropped.count() > 0
            && self.session().is_some_and(declares)
            && let Some(others) = self.shared.dropped_effects.due(kind)
        {
            warn!(
                kind,
                object,
                dropped = dropped.count(),
                others,
                error = %dropped,
                "effects of the provider not written"
            );
        }
    }

    /// Asks the provider now how it is. Returns why its answers about instances are not to be relied upon; none:
    /// it says that it is READY.
    pub async fn trouble(&self) -> Option<Box<str>> {
        let ask = async {
            let session = self.shared.session()?;
            let channel = session.channel.clone();
            let request = GetStatusRequest {};
            let metrics = &self.shared.metrics;
            let status = send(metrics, channel, session.max_send_bytes, request).await?;
            Ok::<_, Error>((session, status))
        };
        match self
            .preconditions
            .wait(GetStatusRequest::METHOD.name, ask)
            .await
        {
            Ok(Ok((session, status))) if *status.boot_id != *session.boot_id => {
                Some("another process than the one that was asked about the instance".into())
            }
            Ok(Ok((_, mut status))) => match health::read(&mut status) {
                ProviderState::Ready => None,
                ProviderState::Degraded { .. } if health::spares_instances(&status) => None,
                other => Some(other.to_string().into()),
            },
            Ok(Err(error)) | Err(error) => Some(error.to_string().into()),
        }
    }
}

/// The state that the handle, the connection and the calls share.
pub(super) struct Shared {
    pub(super) cluster_name: String,
    pub(super) cluster_uid: watch::Sender<ClusterUid>,
    pub(super) allow_untagged: bool,
    pub(super) state: watch::Sender<ProviderState>,
    pub(super) session: watch::Sender<Option<Arc<Session>>>,
    /// The provider's last report; empty before its first answer.
    pub(super) health: Mutex<GetStatusResponse>,
    pub(super) standby: watch::Sender<bool>,
    pub(super) admission: Arc<Admission>,
    pub(super) synced_nodes: SyncedNodes,
    pub(super) dropped_effects: Repeats,
    /// Faults that would be logged with each call or connection.
    pub(super) repeats: Repeats,
    pub(super) metrics: ProviderMetrics,
}

//! The handle of the provider: its state, and the way to calls.
//!
//! The binary makes it, and each lease term of a loop has a fenced clone. It works from the start: without a connection
//! each call ends at once with an error.

use std::{fmt::Write, future, sync::Arc};

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
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    Connect, Error, Instances, LoadBalancers, Options, ProviderMetrics, ProviderState, Routes,
    Session, Volumes,
    admission::{Admission, CLASSES, class_label},
    batch::{self, Lookups},
    call::Caller,
    connection::Manager,
    load_balancers::LoadBalancerIdentities,
    node_sets::SyncedNodes,
    state,
};
use outrigger_runtime::{fence::Fence, telemetry::Repeats};

/// The provider, as the loops see it. Cheap to clone.
///
/// Works from the start: before there is a connection, and whenever there is none, calls end at
/// once with [`Error::Unavailable`]. Loops wait for [`Provider::wait_until_serving`] before they take keys.
#[derive(Clone)]
pub struct Provider {
    pub(super) caller: Caller,
    pub(super) lookups: Lookups,
    /// Those of one lease term.
    pub(super) identities: Arc<LoadBalancerIdentities>,
}

impl Provider {
    /// Makes the handle, and the future that does its work: connects, keeps the connection, sends
    /// the batches. The caller spawns that future and owns it; it ends only after `cancel`.
    pub fn new(
        options: Options,
        connector: Box<dyn Connect>,
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
            repeats: Repeats::default(),
            metrics,
        });
        let (lookups, batching) = batch::batcher(&shared, cancel.clone());
        let manager = Manager::new(Arc::clone(&shared), options, connector, cancel);
        let run = async move {
            tokio::join!(manager.run(), batching);
        };
        let caller = Caller {
            shared,
            fence: Fence::new(|| true, &CancellationToken::new()),
            is_current: Arc::new(|| true),
        };
        let provider = Self {
            caller,
            lookups,
            identities: Arc::default(),
        };
        (provider, run)
    }

    /// The same provider, called only as long as `fence` allows: right before a request is sent it is
    /// asked once more, a call that still waits ends with [`Error::Fenced`] when it stops, and one in
    /// flight with [`Error::Cancelled`] when it cancels. It begins without the memory of an earlier lease term.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Self {
        let caller = Caller {
            fence,
            ..self.caller.clone()
        };
        Self {
            caller,
            lookups: self.lookups.clone(),
            identities: Arc::default(),
        }
    }

    /// The same provider, but a call that `check` refuses right before its request is sent ends with
    /// [`Error::Outdated`]: the object of the call has changed while the call waited. `check` must not
    /// block.
    #[must_use]
    pub fn only_while(&self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let caller = Caller {
            is_current: Arc::new(check),
            ..self.caller.clone()
        };
        Self {
            caller,
            ..self.clone()
        }
    }

    /// Sets the UID of the cluster. Calls that change the cloud end with [`Error::Unidentified`] as long as
    /// that is not certain. A change leads to another handshake.
    pub fn set_cluster_uid(&self, uid: ClusterUid) {
        self.caller.shared.metrics.cluster_uid(&uid);
        self.caller.shared.cluster_uid.send_replace(uid);
    }

    /// The cluster's UID, as far as it is known, and changes of it.
    pub fn cluster_uid(&self) -> watch::Receiver<ClusterUid> {
        self.caller.shared.cluster_uid.subscribe()
    }

    /// How the provider is, now and whenever that changes.
    pub fn state(&self) -> watch::Receiver<ProviderState> {
        self.caller.shared.state.subscribe()
    }

    /// The session of the last handshake; `None` while there is no connection.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.caller.shared.session.borrow().clone()
    }

    /// Calls `then` with the current session and each later one. Never returns.
    pub async fn each_session(&self, mut then: impl FnMut(&Session)) {
        let never = |session: &Session| {
            then(session);
            false
        };
        self.caller.shared.session_that(never).await;
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
        let (shared, now) = (&self.caller.shared, Instant::now());
        let mut lines = format!(
            "state: {}\nstandby: {}\n",
            *shared.state.borrow(),
            *shared.standby.borrow()
        );
        for class in CLASSES {
            if let Some(until) = shared.admission.paused_until(class) {
                let left = (until - now).as_secs_f64();
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "paused: {} for {left:.3}s", class_label(class));
            }
        }
        match &*shared.session.borrow() {
            Some(session) => {
                let _ = writeln!(lines, "session: {:#?}", &***session);
                if let Some(missing) = session.grants_missing() {
                    let _ = writeln!(lines, "effects: {missing}");
                }
            }
            None => lines.push_str("session: none\n"),
        }
        let _ = writeln!(lines, "health: {:#?}", *shared.health.lock());
        lines
    }

    /// Waits until there is a provider that `offers` something; `without` is called once if one does not, for the next
    /// process behind the socket may (N-1, S-1).
    pub async fn offering(&self, offers: impl Fn(&Session) -> bool, without: impl FnOnce()) {
        let mut without = Some(without);
        let is_eligible = |session: &Session| {
            let is_wanted = offers(session);
            if !is_wanted && let Some(without) = without.take() {
                without();
            }
            is_wanted
        };
        self.caller.shared.session_that(is_eligible).await;
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
        self.caller.shared.standby.send_replace(standby);
    }

    /// The effects in `raw`, of an answer about `node`, that the provider may have. The others are counted, and logged
    /// once a minute.
    pub fn node_effects(&self, node: &NodeView, raw: RawEffects) -> Effects {
        let Some(session) = self.session() else {
            return Effects::default();
        };
        let allowed = session.node_effects.clone().unwrap_or_default();
        let effects = session.effects(raw, &allowed, &node.uid, node);
        let metrics = &self.caller.shared.metrics;
        let count = effects.dropped.count() as u64;
        metrics.node_effects_dropped.inc_by(count);
        self.log_dropped_effects("node", &node.name, &effects.dropped);
        effects
    }

    /// Logs effects of an answer about the object that are not written. One mistake of a provider may concern all
    /// objects of a kind.
    pub fn log_dropped_effects(&self, kind: &str, object: &str, dropped: &Dropped) {
        if dropped.count() > 0
            && let Some(others) = self.caller.shared.repeats.due(kind)
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
        let shared = &self.caller.shared;
        let ask = async {
            let session = shared.session()?;
            let (status, state) = shared.get_status(&session).await?;
            Ok::<_, Error>((session, status, state))
        };
        let answer = self.caller.wait(GetStatusRequest::METHOD.name, ask);
        match answer.await.flatten() {
            Ok((session, status, _)) if *status.boot_id != *session.boot_id => {
                Some("another process than the one that was asked about the instance".into())
            }
            Ok((_, _, ProviderState::Ready)) => None,
            Ok((_, status, ProviderState::Degraded { .. })) if state::spares_instances(&status) => {
                None
            }
            Ok((_, _, other)) => Some(other.to_string().into()),
            Err(error) => Some(error.to_string().into()),
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
    /// Faults that would be logged with each call or connection.
    pub(super) repeats: Repeats,
    pub(super) metrics: ProviderMetrics,
}

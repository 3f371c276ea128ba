//! Keeps one connection to the provider, for ever: connects, shakes hands, runs the heartbeat, and starts again. Another
//! UID of the cluster needs another handshake, and so another connection; calls in flight go on where they are.
//!
//! It is the only writer of the session and of the state that loops, probes and metrics read. A provider that is refused is
//! asked again later; a process that is new is asked at once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use outrigger_api::{
    MethodRequest,
    v1::{ErrorReason, GetStatusRequest, HandshakeRequest},
};
use outrigger_core::text;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    Connect, Error, Options, ProviderState, Session, Shared, call::send, handshake,
    session::HandshakeResult, socket, state::Outage, transport::ProviderConnection,
};

/// Before a refused provider is asked again. A new process is asked at once.
const REFUSED: Duration = Duration::from_mins(1);
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_LONGEST: Duration = Duration::from_secs(1);

/// Between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Between heartbeats of a standby.
const HEARTBEAT_STANDBY: Duration = Duration::from_mins(1);
/// Heartbeats in a row without an answer before the connection is given up. A long pause of a garbage
/// collector may cost one.
const MISSED_HEARTBEATS: u32 = 2;

pub(super) struct Manager {
    shared: Arc<Shared>,
    options: Options,
    connector: Box<dyn Connect>,
    tasks: TaskTracker,
    cancel: CancellationToken,
    /// The last provider that was accepted.
    last: Option<Arc<Session>>,
    /// Capabilities that were declared once.
    declared: BTreeSet<&'static str>,
    /// UID of the cluster, as the last handshake sent it.
    sent_uid: String,
}

impl Manager {
    pub(super) fn new(
        shared: Arc<Shared>,
        options: Options,
        connector: Box<dyn Connect>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            shared,
            options,
            connector,
            tasks: TaskTracker::new(),
            cancel,
            last: None,
            declared: BTreeSet::new(),
            sent_uid: String::new(),
        }
    }

    /// Works until cancelled.
    pub(super) async fn run(mut self) {
        let cancel = self.cancel.clone();
        cancel.run_until_cancelled(self.connect_for_ever()).await;
        self.shared.withdraw();
        // They end with the same token.
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn connect_for_ever(&mut self) {
        let mut delay = RECONNECT_FIRST;
        loop {
            let before = Instant::now();
            let Err(outage) = self.connect_once().await else {
                // Another UID. The session stays until the next one.
                continue;
            };
            if self.cancel.is_cancelled() {
                // We closed it ourselves.
                return;
            }
            self.shared.down(outage);
            // A provider that ends as soon as it is spoken to is not asked twenty times a second.
            if before.elapsed() > RECONNECT_LONGEST {
                delay = RECONNECT_FIRST;
            }
            sleep(delay.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
            delay = (delay * 2).min(RECONNECT_LONGEST);
        }
    }

    /// Uses one connection to its end, or until another handshake is due.
    async fn connect_once(&mut self) -> Result<(), Outage> {
        let connection = self.dial().await?;
        let accepted = tokio::select! {
            biased;
            () = connection.closed.cancelled() => Err(self.closed()),
            accepted = self.shake_hands(&connection) => accepted,
        };
        let accepted = match accepted {
            Err(outage) if outage.is_refusal() => {
                self.shared.down(outage.clone());
                tokio::select! {
                    () = connection.closed.cancelled() => {}
                    () = sleep(REFUSED) => {}
                }
                return Err(outage);
            }
            accepted => accepted?,
        };
        // Not if the UID became another one meanwhile.
        if self.is_current_uid() {
            let withdrawn = self.withdrawn_by(&accepted);
            let session = self.publish(connection, accepted);
            self.run_heartbeat(&session, withdrawn).await?;
        }
        Ok(())
    }

    async fn dial(&self) -> Result<ProviderConnection, Outage> {
        let limit = HandshakeRequest::METHOD.deadline;
        let dial = ProviderConnection::dial(&*self.connector, &self.tasks, &self.cancel);
        match timeout(limit, dial).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(Outage::disconnected(format!(
                "no provider answers at {}: {error}; {}",
                self.connector,
                socket::hint(&error)
            ))),
            Err(_elapsed) => Err(Outage::silent(format!(
                "no process accepts the connection at {} for {limit:?}",
                self.connector
            ))),
        }
    }

    /// The connection has ended, or a call has heard on it that the provider ends or knows no handshake. Calls in flight
    /// go on there.
    fn closed(&self) -> Outage {
        Outage::disconnected(format!(
            "the connection to {} was lost, or is of no use any more",
            self.connector
        ))
    }

    fn is_current_uid(&self) -> bool {
        self.shared.cluster_uid.borrow().as_sent() == self.sent_uid
    }

    async fn shake_hands(
        &mut self,
        connection: &ProviderConnection,
    ) -> Result<HandshakeResult, Outage> {
        let shared = &self.shared;
        shared
            .cluster_uid
            .borrow()
            .as_sent()
            .clone_into(&mut self.sent_uid);
        let request = handshake::request(&self.options, &self.sent_uid);
        let call = connection.channel(usize::MAX).unary(request);
        let answer = send(&self.shared.metrics, HandshakeRequest::METHOD, call).await;
        let answer = answer.map_err(|error| {
            handshake::refusal(&error).unwrap_or_else(|| match error {
                Error::Timeout { .. } => Outage::silent(format!(
                    "the provider at {} accepted the connection and does not answer: {error}",
                    self.connector
                )),
                error => Outage::disconnected(format!(
                    "the handshake with the provider at {} failed: {error}",
                    self.connector
                )),
            })
        })?;
        let is_untagged = answer.without_cluster_id;
        let last = self.last.as_ref().map(|last| &***last);
        let accepted = handshake::accept(&self.options, last, answer)?;
        if is_untagged && self.last.is_none() {
            // PROC-3, in upstream's words.
            warn!(
                "detected a cluster without a ClusterID.  A ClusterID will be required in \
                 the future.  Please tag your cluster to avoid any future issues"
            );
        }
        Ok(accepted)
    }

    /// A capability that is declared no longer stops loops, so it is reported for as long as that lasts.
    fn withdrawn_by(&mut self, result: &HandshakeResult) -> Option<Arc<str>> {
        let all = result.capabilities().into_iter();
        let (served, others): (Vec<_>, Vec<_>) = all.partition(|(_, is_served)| *is_served);
        self.declared
            .extend(served.into_iter().map(|(name, _)| name));
        let others = others.into_iter().map(|(name, _)| name);
        let withdrawn: Vec<_> = others.filter(|name| self.declared.contains(name)).collect();
        (!withdrawn.is_empty()).then(|| {
            let withdrawn = withdrawn.join(", ");
            format!(
                "the provider does not declare capabilities that it declared before: {withdrawn}; loops that need them wait \
                 until it does: bring them back, or restart the controller if they are not to come back"
            )
            .into()
        })
    }

    fn publish(&mut self, connection: ProviderConnection, result: HandshakeResult) -> Arc<Session> {
        let last = self.last.as_ref();
        let new_process = last.is_none_or(|last| last.boot_id != result.boot_id);
        debug!(
            provider = &*result.name,
            version = &*result.version,
            boot_id = &*result.boot_id,
            minor = result.minor,
            "handshake completed"
        );
        let session = Arc::new(Session::new(result, connection));
        if let Some(missing) = session.grants_missing()
            && self.shared.repeats.due(&missing).is_some()
        {
            warn!(error = %missing, "provider may not write all effects that it declares");
        }
        // Before those who wait for admission learn of the session.
        self.shared.admission.adopt(&session, new_process);
        self.shared.metrics.connected(&session);
        self.last = Some(Arc::clone(&session));
        self.shared.session.send_replace(self.last.clone());
        session
    }

    /// Runs the heartbeat until another handshake is due, or the connection is lost.
    async fn run_heartbeat(
        &self,
        session: &Session,
        withdrawn: Option<Arc<str>>,
    ) -> Result<(), Outage> {
        let closed = &session.connection.closed;
        let mut standby = self.shared.standby.subscribe();
        let mut uid = self.shared.cluster_uid.subscribe();
        let mut missed = 0;
        loop {
            let began = Instant::now();
            let heartbeat = tokio::select! {
                biased;
                () = closed.cancelled() => return Err(self.closed()),
                heartbeat = self.shared.get_status(session) => heartbeat,
            };
            if matches!(heartbeat, Err(Error::Timeout { .. })) {
                missed += 1;
                if missed >= MISSED_HEARTBEATS {
                    // Whatever waits on it would wait for its own deadline.
                    session.connection.aborted.cancel();
                    return Err(Outage::silent(format!(
                        "the provider at {} hangs: it left {missed} calls of GetStatus \
                             unanswered, {:?} each; a restart of it may help",
                        self.connector,
                        GetStatusRequest::METHOD.deadline
                    )));
                }
                let late = "the provider does not answer GetStatus in time";
                self.shared.degraded(late);
                continue;
            }
            missed = 0;
            match heartbeat {
                Ok((status, _)) if *status.boot_id != *session.boot_id => {
                    // Another process behind the same connection, with nothing of ours.
                    return Err(Outage::disconnected(format!(
                        "the provider names boot_id {:?} in GetStatus and {:?} at Handshake, which must be one \
                             value, chosen when its process starts",
                        text::cut(&status.boot_id, 64),
                        session.boot_id,
                    )));
                }
                Ok((status, state)) => {
                    self.shared.metrics.quotas(&status.quotas);
                    *self.shared.health.lock() = status;
                    self.shared.enter(match (state, withdrawn.clone()) {
                        (ProviderState::Ready, Some(reason)) => ProviderState::Degraded { reason },
                        (state, _) => state,
                    });
                }
                Err(error) if error.reason() == Some(ErrorReason::ShuttingDown) => {
                    let reason = "the provider is shutting down";
                    return Err(Outage::disconnected(reason));
                }
                Err(error) => self.shared.degraded(&text::message(&error.to_string())),
            }
            loop {
                if !self.is_current_uid() {
                    return Ok(());
                }
                let pace = if *standby.borrow_and_update() {
                    HEARTBEAT_STANDBY
                } else {
                    HEARTBEAT
                };
                tokio::select! {
                    () = closed.cancelled() => return Err(self.closed()),
                    () = sleep_until(began + pace) => break,
                    Ok(()) = standby.changed() => {}
                    Ok(()) = uid.changed() => {}
                }
            }
        }
    }
}

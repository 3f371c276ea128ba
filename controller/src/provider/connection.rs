//! Keeps one connection to the provider, for ever.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use outrigger_api::v1::{ErrorReason, GetStatusRequest};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    Connect, DownCause, Endpoint, Error, Options, Session, Shared,
    admission::CallClass,
    call::{GetStatus, Handshake, MessageLimits, Unary, Wish, Wishes, unary},
    handshake::{self, RefusedHandshake},
    health::{self, Heartbeat},
    session::HandshakeResult,
    text,
    transport::ProviderConnection,
};

mod again;
mod publish;

use again::Again;

/// Between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Between heartbeats of a standby.
const HEARTBEAT_STANDBY: Duration = Duration::from_mins(1);
/// Heartbeats in a row that go unanswered before the connection is given up. One may be a long
/// pause of a garbage collector.
const MISSED_HEARTBEATS: u32 = 2;
/// Before a refused provider is asked again, on the same connection. A new one is asked at once.
const REFUSED: Duration = Duration::from_mins(1);
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_LONGEST: Duration = Duration::from_secs(1);

/// Connects, shakes hands, runs the heartbeat, and starts again.
pub(super) struct Manager {
    shared: Arc<Shared>,
    options: Options,
    connector: Box<dyn Connect>,
    wishes: Wishes,
    tasks: TaskTracker,
    cancel: CancellationToken,
    handshakes: u64,
    again: Again,
    connected_before: bool,
    /// About the last connection.
    suspicion: Option<String>,
    /// Of the first provider that was accepted.
    name: Option<Box<str>>,
    boot_id: Box<str>,
    /// UID of the cluster, as the last handshake told it.
    told: String,
}

/// Why a connection is not used any longer.
enum Loss {
    /// It closed, or could not be used.
    Disconnected(String),
    /// No process answers on it.
    Silent(String),
}

impl Manager {
    pub(super) fn new(
        shared: Arc<Shared>,
        options: Options,
        connector: Box<dyn Connect>,
        wishes: Wishes,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            shared,
            options,
            connector,
            wishes,
            tasks: TaskTracker::new(),
            cancel,
            handshakes: 0,
            again: Again::default(),
            connected_before: false,
            suspicion: None,
            name: None,
            boot_id: Box::default(),
            told: String::new(),
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
            let loss = self.connect_once().await;
            if self.cancel.is_cancelled() {
                // We closed it ourselves.
                return;
            }
            let (cause, reason) = match loss {
                Loss::Disconnected(reason) => (DownCause::Disconnected, reason),
                Loss::Silent(reason) => (DownCause::Silent, reason),
            };
            self.shared.down(cause, &reason);
            self.shared.withdraw();
            // A provider that ends as soon as it is spoken to is not asked twenty times a second.
            if before.elapsed() > RECONNECT_LONGEST {
                delay = RECONNECT_FIRST;
            }
            sleep(delay.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
            delay = (delay * 2).min(RECONNECT_LONGEST);
        }
    }

    async fn connect_once(&mut self) -> Loss {
        let dial = ProviderConnection::dial(&*self.connector, &self.tasks, &self.cancel);
        let connection = match timeout(Handshake::DEADLINE, dial).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                return Loss::Disconnected(format!(
                    "no provider answers at {}: {error}; {}",
                    self.connector,
                    Endpoint::hint(&error)
                ));
            }
            Err(_elapsed) => {
                return Loss::Silent(format!(
                    "no process accepts the connection at {} for {:?}",
                    self.connector,
                    Handshake::DEADLINE
                ));
            }
        };
        self.warn_of_strangers();
        let mut new_connection = true;
        loop {
            let tried = tokio::select! {
                biased;
                () = connection.closed() => return self.closed(),
                tried = self.shake_hands(&connection) => tried,
            };
            match tried {
                // The UID became another one meanwhile.
                Ok(Ok(_)) if !self.shared.has_told(&self.told) => {}
                Ok(Ok(result)) => {
                    let session = self.publish(&connection, result, new_connection);
                    new_connection = false;
                    if let ControlFlow::Break(loss) =
                        self.run_heartbeat(&connection, &session).await
                    {
                        return loss;
                    }
                }
                Ok(Err(RefusedHandshake { cause, reason })) => {
                    self.shared.down(cause, &reason);
                    self.shared.withdraw();
                    tokio::select! {
                        () = connection.closed() => return self.closed(),
                        () = sleep(REFUSED) => {}
                    }
                }
                Err(loss) => return loss,
            }
        }
    }

    /// Once for each reason.
    fn warn_of_strangers(&mut self) {
        let suspicion = self.connector.suspicion();
        if suspicion != self.suspicion
            && let Some(why) = &suspicion
        {
            warn!(
                error = %why,
                "provider's socket is open to another user: if that is not the provider's, another \
                 process can answer in its place; let root or the provider own the socket and its \
                 directory"
            );
        }
        self.suspicion = suspicion;
    }

    fn closed(&self) -> Loss {
        Loss::Disconnected(format!("the connection to {} was lost", self.connector))
    }

    /// One handshake. The outer error asks for a new connection.
    async fn shake_hands(
        &mut self,
        connection: &ProviderConnection,
    ) -> Result<Result<HandshakeResult, RefusedHandshake>, Loss> {
        let limits = MessageLimits {
            send: usize::MAX,
            receive: self.options.max_receive_bytes,
        };
        let request = {
            let uid = self.shared.cluster_uid.borrow();
            uid.as_sent().clone_into(&mut self.told);
            handshake::request(&self.options, &self.told)
        };
        let answer =
            unary::<Handshake>(&self.shared.metrics, connection.channel(), limits, request).await;
        match answer {
            Ok(answer) => {
                let generation = self.handshakes + 1;
                let name = self.name.as_deref();
                let untagged = answer.without_cluster_id;
                let accepted = handshake::accept(&self.options, name, generation, answer);
                if untagged && accepted.is_ok() && self.handshakes == 0 {
                    // PROC-3, in upstream's words.
                    warn!(
                        "detected a cluster without a ClusterID.  A ClusterID will be required in \
                         the future.  Please tag your cluster to avoid any future issues"
                    );
                }
                Ok(accepted)
            }
            Err(error) => match RefusedHandshake::from_error(&error) {
                Some(refusal) => Ok(Err(refusal)),
                None if matches!(error, Error::Timeout { .. }) => Err(Loss::Silent(format!(
                    "the provider at {} accepted the connection and does not answer: {error}",
                    self.connector
                ))),
                None => Err(Loss::Disconnected(format!(
                    "the handshake with the provider at {} failed: {error}",
                    self.connector
                ))),
            },
        }
    }

    fn publish(
        &mut self,
        connection: &ProviderConnection,
        result: HandshakeResult,
        new_connection: bool,
    ) -> Arc<Session> {
        self.handshakes = result.generation;
        let new_process = self.boot_id != result.boot_id;
        self.boot_id.clone_from(&result.boot_id);
        self.name.get_or_insert_with(|| result.name.clone());
        let reconnect = new_connection && self.connected_before;
        self.connected_before = true;
        debug!(
            provider = &*result.name,
            version = &*result.version,
            boot_id = &*result.boot_id,
            minor = result.minor,
            "handshake completed"
        );
        let session = Arc::new(Session::new(
            result,
            connection,
            self.options.max_receive_bytes,
        ));
        let admission = &self.shared.admission;
        admission.renew(&session.rates, new_process);
        if let Some(offered) = &session.load_balancers {
            admission.allow(CallClass::LoadBalancers, offered.max_in_flight);
        }
        self.shared.publish(&session, reconnect);
        session
    }

    /// Runs the heartbeat. Continues when another handshake is due on the same connection.
    async fn run_heartbeat(
        &mut self,
        connection: &ProviderConnection,
        session: &Session,
    ) -> ControlFlow<Loss> {
        let mut standby = self.shared.standby.subscribe();
        let mut uid = self.shared.cluster_uid.subscribe();
        let mut missed = 0;
        loop {
            let asked = Instant::now();
            let heartbeat = tokio::select! {
                biased;
                () = connection.closed() => return ControlFlow::Break(self.closed()),
                heartbeat = self.get_status(session) => heartbeat,
            };
            match heartbeat {
                Ok((boot_id, heartbeat)) => {
                    missed = 0;
                    if *boot_id != *session.boot_id {
                        // Another process behind the same connection, with nothing of ours.
                        let why = format!(
                            "it names boot_id {:?} in GetStatus and {:?} at Handshake, which must be \
                             one value, chosen when its process starts",
                            text::cut(&boot_id, 64),
                            session.boot_id,
                        );
                        return self.again(connection, &why, true).await;
                    }
                    self.shared.enter(|since| heartbeat.state(since));
                }
                Err(Error::Timeout { .. }) => {
                    missed += 1;
                    if missed >= MISSED_HEARTBEATS {
                        // Whatever waits on it would wait for its own deadline.
                        connection.abort();
                        return ControlFlow::Break(Loss::Silent(format!(
                            "the provider at {} hangs: it left {missed} calls of GetStatus \
                             unanswered, {:?} each; a restart of it may help",
                            self.connector,
                            GetStatus::DEADLINE
                        )));
                    }
                    self.shared
                        .degraded("the provider does not answer GetStatus in time");
                    continue;
                }
                Err(error) if error.reason() == Some(ErrorReason::ShuttingDown) => {
                    return ControlFlow::Break(shutting_down());
                }
                Err(error) => {
                    missed = 0;
                    self.shared.degraded(&text::message(&error.to_string()));
                }
            }
            loop {
                if !self.shared.has_told(&self.told) {
                    return ControlFlow::Continue(());
                }
                let pace = if *standby.borrow_and_update() {
                    HEARTBEAT_STANDBY
                } else {
                    HEARTBEAT
                };
                tokio::select! {
                    () = connection.closed() => return ControlFlow::Break(self.closed()),
                    () = sleep_until(asked + pace) => break,
                    Ok(()) = standby.changed() => {}
                    Ok(()) = uid.changed() => {}
                    Some((generation, wish)) = self.wishes.recv() => {
                        if generation < session.generation {
                            continue;
                        }
                        return match wish {
                            Wish::Handshake => {
                                let why = "it answers NOT_HANDSHAKED, which means that no handshake \
                                           was made since its process started";
                                self.again(connection, why, false).await
                            }
                            Wish::Leave => ControlFlow::Break(shutting_down()),
                        };
                    }
                }
            }
        }
    }

    /// Continues when the next handshake is due, which the provider asked for: `why`. From the second
    /// in a row on that is reported, and takes longer each time.
    async fn again(
        &mut self,
        connection: &ProviderConnection,
        why: &str,
        is_degraded: bool,
    ) -> ControlFlow<Loss> {
        let Some(wait) = self.again.wait(Instant::now()) else {
            return ControlFlow::Continue(());
        };
        if self.again.in_a_row == 1 {
            warn!(
                error = %why,
                "provider needs one handshake after the other; handshakes are repeated with back-off"
            );
        } else {
            debug!(?wait, error = %why, "handshake repeated");
        }
        if is_degraded {
            let reason = format!("the provider needs one handshake after the other: {why}");
            self.shared.degraded(&reason);
        }
        tokio::select! {
            () = connection.closed() => ControlFlow::Break(self.closed()),
            () = sleep(wait) => ControlFlow::Continue(()),
        }
    }

    /// One heartbeat. Returns the boot id and how the provider is.
    async fn get_status(&self, session: &Session) -> Result<(String, Heartbeat), Error> {
        let shared = &self.shared;
        let request = GetStatusRequest {};
        let channel = session.channel.clone();
        let status = unary::<GetStatus>(&shared.metrics, channel, session.limits, request).await?;
        let (heartbeat, health) = health::read(&status);
        shared.metrics.health(&health);
        shared.health.send_replace(health);
        Ok((status.boot_id, heartbeat))
    }
}

fn shutting_down() -> Loss {
    Loss::Disconnected("the provider is shutting down".into())
}

//! Keeps one connection to the provider, for ever.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use outrigger_api::{MethodRequest, v1};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{
    Connect, DownCause, Error, Options, Session, Shared,
    admission::CallClass,
    call::send,
    handshake::{self, RefusedHandshake},
    session::HandshakeResult,
    socket,
    transport::ProviderConnection,
};

mod heartbeat;

/// Before a refused provider is asked again, on the same connection. A new one is asked at once.
const REFUSED: Duration = Duration::from_mins(1);
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_LONGEST: Duration = Duration::from_secs(1);

/// Connects, shakes hands, runs the heartbeat, and starts again.
pub(super) struct Manager {
    shared: Arc<Shared>,
    options: Options,
    connector: Box<dyn Connect>,
    tasks: TaskTracker,
    cancel: CancellationToken,
    handshakes: u64,
    /// The name of the first provider that was accepted.
    name: Option<Box<str>>,
    boot_id: Box<str>,
    /// Capabilities that were declared once.
    declared: BTreeSet<&'static str>,
    /// The enabled capabilities that the current provider does not declare, as text for logs and conditions.
    withdrawn: Option<Arc<str>>,
    /// UID of the cluster, as the last handshake sent it.
    sent_uid: String,
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
        cancel: CancellationToken,
    ) -> Self {
        Self {
            shared,
            options,
            connector,
            tasks: TaskTracker::new(),
            cancel,
            handshakes: 0,
            name: None,
            boot_id: Box::default(),
            declared: BTreeSet::new(),
            withdrawn: None,
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
        let connection = match timeout(v1::HandshakeRequest::METHOD.deadline, dial).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                return Loss::Disconnected(format!(
                    "no provider answers at {}: {error}; {}",
                    self.connector,
                    socket::hint(&error)
                ));
            }
            Err(_elapsed) => {
                return Loss::Silent(format!(
                    "no process accepts the connection at {} for {:?}",
                    self.connector,
                    v1::HandshakeRequest::METHOD.deadline
                ));
            }
        };
        let mut new_connection = true;
        loop {
            let tried = tokio::select! {
                biased;
                () = connection.closed() => return self.closed(),
                tried = self.shake_hands(&connection) => tried,
            };
            match tried {
                // The UID became another one meanwhile.
                Ok(Ok(_)) if !self.shared.is_current_uid(&self.sent_uid) => {}
                Ok(Ok(result)) => {
                    let session = self.publish(&connection, result, new_connection);
                    new_connection = false;
                    if let Err(loss) = self.run_heartbeat(&connection, &session).await {
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

    /// The connection has ended, or a call has heard on it that the provider ends or knows no handshake. Calls in flight
    /// go on there.
    fn closed(&self) -> Loss {
        Loss::Disconnected(format!(
            "the connection to {} was lost, or is of no use any more",
            self.connector
        ))
    }

    /// One handshake. The outer error asks for a new connection.
    async fn shake_hands(
        &mut self,
        connection: &ProviderConnection,
    ) -> Result<Result<HandshakeResult, RefusedHandshake>, Loss> {
        let request = {
            let uid = self.shared.cluster_uid.borrow();
            uid.as_sent().clone_into(&mut self.sent_uid);
            handshake::request(&self.options, &self.sent_uid)
        };
        let answer = send(
            &self.shared.metrics,
            connection.channel(),
            usize::MAX,
            request,
        )
        .await;
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

    /// A capability that is declared no longer stops loops, so it is reported for as long as that lasts.
    fn withdrawn_by(&mut self, result: &HandshakeResult) -> Option<Arc<str>> {
        let mut withdrawn = Vec::new();
        for (capability, is_served) in result.capabilities() {
            if is_served {
                self.declared.insert(capability);
            } else if self.declared.contains(capability) {
                withdrawn.push(capability);
            }
        }
        (!withdrawn.is_empty()).then(|| {
            let withdrawn = withdrawn.join(", ");
            format!(
                "the provider does not declare capabilities that it declared before: {withdrawn}; loops that need them wait \
                 until it does: bring them back, or restart the controller if they are not to come back"
            )
            .into()
        })
    }

    fn publish(
        &mut self,
        connection: &ProviderConnection,
        result: HandshakeResult,
        new_connection: bool,
    ) -> Arc<Session> {
        let reconnect = new_connection && self.handshakes > 0;
        self.handshakes = result.generation;
        let new_process = self.boot_id != result.boot_id;
        self.boot_id.clone_from(&result.boot_id);
        self.name.get_or_insert_with(|| result.name.clone());
        self.withdrawn = self.withdrawn_by(&result);
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
        let admission = &self.shared.admission;
        admission.renew(&session.rates, new_process);
        if let Some(offered) = &session.load_balancers {
            admission.allow(CallClass::LoadBalancers, offered.max_in_flight);
        }
        if let Some(offered) = &session.routes {
            admission.allow(CallClass::Routes, offered.max_in_flight);
        }
        if let Some(offered) = &session.volumes {
            admission.allow(CallClass::Volumes, offered.max_in_flight);
        }
        self.shared.publish(&session, reconnect);
        session
    }
}

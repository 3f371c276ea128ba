//! The heartbeat of one connection, and the end of its session.

use std::time::Duration;

use outrigger_api::{
    MethodRequest,
    v1::{ErrorReason, GetStatusRequest},
};
use outrigger_core::text;
use tokio::time::{Instant, sleep_until};

use super::{Loss, Manager};
use crate::{Error, ProviderState, Session, call::send, health, transport::ProviderConnection};

/// Between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Between heartbeats of a standby.
const HEARTBEAT_STANDBY: Duration = Duration::from_mins(1);
/// Heartbeats in a row without an answer before the connection is given up. A long pause of a garbage
/// collector may cost one.
const MISSED_HEARTBEATS: u32 = 2;

impl Manager {
    /// Runs the heartbeat until another handshake is due on the same connection, or the connection is lost.
    pub(super) async fn run_heartbeat(
        &self,
        connection: &ProviderConnection,
        session: &Session,
    ) -> Result<(), Loss> {
        let mut standby = self.shared.standby.subscribe();
        let mut uid = self.shared.cluster_uid.subscribe();
        let mut missed = 0;
        loop {
            let began = Instant::now();
            let heartbeat = tokio::select! {
                biased;
                () = connection.closed() => return Err(self.closed()),
                heartbeat = self.get_status(session) => heartbeat,
            };
            match heartbeat {
                Ok((boot_id, state)) => {
                    missed = 0;
                    if *boot_id != *session.boot_id {
                        // Another process behind the same connection, with nothing of ours.
                        return Err(Loss::Disconnected(format!(
                            "the provider names boot_id {:?} in GetStatus and {:?} at Handshake, which must be one \
                             value, chosen when its process starts",
                            text::cut(&boot_id, 64),
                            session.boot_id,
                        )));
                    }
                    self.shared.enter(match (state, self.withdrawn.clone()) {
                        (ProviderState::Ready, Some(reason)) => ProviderState::Degraded { reason },
                        (state, _) => state,
                    });
                }
                Err(Error::Timeout { .. }) => {
                    missed += 1;
                    if missed >= MISSED_HEARTBEATS {
                        // Whatever waits on it would wait for its own deadline.
                        connection.abort();
                        return Err(Loss::Silent(format!(
                            "the provider at {} hangs: it left {missed} calls of GetStatus \
                             unanswered, {:?} each; a restart of it may help",
                            self.connector,
                            GetStatusRequest::METHOD.deadline
                        )));
                    }
                    self.shared
                        .degraded("the provider does not answer GetStatus in time");
                    continue;
                }
                Err(error) if error.reason() == Some(ErrorReason::ShuttingDown) => {
                    return Err(Loss::Disconnected("the provider is shutting down".into()));
                }
                Err(error) => {
                    missed = 0;
                    self.shared.degraded(&text::message(&error.to_string()));
                }
            }
            loop {
                if !self.shared.is_current_uid(&self.sent_uid) {
                    return Ok(());
                }
                let pace = if *standby.borrow_and_update() {
                    HEARTBEAT_STANDBY
                } else {
                    HEARTBEAT
                };
                tokio::select! {
                    () = connection.closed() => return Err(self.closed()),
                    () = sleep_until(began + pace) => break,
                    Ok(()) = standby.changed() => {}
                    Ok(()) = uid.changed() => {}
                }
            }
        }
    }

    /// One heartbeat. Returns the boot id and how the provider is.
    async fn get_status(&self, session: &Session) -> Result<(String, ProviderState), Error> {
        let shared = &self.shared;
        let request = GetStatusRequest {};
        let channel = session.channel.clone();
        let mut status = send(&shared.metrics, channel, session.max_send_bytes, request).await?;
        let (state, boot_id) = (health::read(&mut status), status.boot_id.clone());
        shared.metrics.quotas(&status.quotas);
        *shared.health.lock() = status;
        Ok((boot_id, state))
    }
}

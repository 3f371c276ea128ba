//! The heartbeat of one connection, and the end of its session.

use std::{ops::ControlFlow, time::Duration};

use outrigger_api::{
    MethodRequest,
    v1::{ErrorReason, GetStatusRequest},
};
use outrigger_core::text;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

use super::{Loss, Manager};
use crate::{
    Error, ProviderState, Session,
    call::{Renewal, send},
    health,
    transport::ProviderConnection,
};

/// Between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Between heartbeats of a standby.
const HEARTBEAT_STANDBY: Duration = Duration::from_mins(1);
/// Heartbeats in a row without an answer before the connection is given up. A long pause of a garbage
/// collector may cost one.
const MISSED_HEARTBEATS: u32 = 2;
/// A later answer is reported: ten times what the contract allows.
const SLOW: Duration = Duration::from_secs(1);
/// Before a handshake that the provider asks for right after another one, from the second in a row on.
const HANDSHAKE_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Handshakes that are further apart are not in a row.
const IN_A_ROW: Duration = Duration::from_mins(3);

/// Handshakes that the provider asks for by what it answers, on a connection that has one.
#[derive(Default)]
pub(super) struct HandshakeBackoff {
    in_a_row: u32,
    last: Option<Instant>,
}

impl HandshakeBackoff {
    /// How long to wait before the next one: not at all before the first in a row.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        let is_first = self.last.is_none_or(|last| now - last > IN_A_ROW);
        self.in_a_row = if is_first { 0 } else { self.in_a_row + 1 };
        let (first, longest) = HANDSHAKE_AGAIN;
        let doublings = self.in_a_row.checked_sub(1);
        let wait = doublings.map(|n| first.saturating_mul(1 << n.min(16)).min(longest));
        self.last = Some(now + wait.unwrap_or_default());
        wait
    }
}

impl Manager {
    /// Runs the heartbeat. Continues when another handshake is due on the same connection.
    pub(super) async fn run_heartbeat(
        &mut self,
        connection: &ProviderConnection,
        session: &Session,
    ) -> ControlFlow<Loss> {
        let mut standby = self.shared.standby.subscribe();
        let mut uid = self.shared.cluster_uid.subscribe();
        let mut missed = 0;
        loop {
            let began = Instant::now();
            let heartbeat = tokio::select! {
                biased;
                () = connection.closed() => return ControlFlow::Break(self.closed()),
                heartbeat = self.get_status(session) => heartbeat,
            };
            match heartbeat {
                Ok((boot_id, state)) => {
                    missed = 0;
                    self.tell_if_slow(began.elapsed());
                    if *boot_id != *session.boot_id {
                        // Another process behind the same connection, with nothing of ours.
                        let why = format!(
                            "it names boot_id {:?} in GetStatus and {:?} at Handshake, which must be \
                             one value, chosen when its process starts",
                            text::cut(&boot_id, 64),
                            session.boot_id,
                        );
                        return self.repeat_handshake(connection, &why, true).await;
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
                        return ControlFlow::Break(Loss::Silent(format!(
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
                    return ControlFlow::Break(shutting_down());
                }
                Err(error) => {
                    missed = 0;
                    self.shared.degraded(&text::message(&error.to_string()));
                }
            }
            loop {
                if !self.shared.is_current_uid(&self.sent_uid) {
                    return ControlFlow::Continue(());
                }
                let pace = if *standby.borrow_and_update() {
                    HEARTBEAT_STANDBY
                } else {
                    HEARTBEAT
                };
                tokio::select! {
                    () = connection.closed() => return ControlFlow::Break(self.closed()),
                    () = sleep_until(began + pace) => break,
                    Ok(()) = standby.changed() => {}
                    Ok(()) = uid.changed() => {}
                    Some((generation, renewal)) = self.renewals.recv() => {
                        if generation < session.generation {
                            continue;
                        }
                        return match renewal {
                            Renewal::Handshake => {
                                let why = "it answers NOT_HANDSHAKED, which means that no handshake \
                                           was made since its process started";
                                self.repeat_handshake(connection, why, false).await
                            }
                            Renewal::Connection => ControlFlow::Break(shutting_down()),
                        };
                    }
                }
            }
        }
    }

    /// Continues when the next handshake is due, which the provider asked for: `why`. From the second
    /// in a row on that is reported, and takes longer each time.
    async fn repeat_handshake(
        &mut self,
        connection: &ProviderConnection,
        why: &str,
        is_degraded: bool,
    ) -> ControlFlow<Loss> {
        let Some(wait) = self.handshake_backoff.wait(Instant::now()) else {
            return ControlFlow::Continue(());
        };
        if self.handshake_backoff.in_a_row == 1 {
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

    /// A provider that asks its cloud before it answers hangs as soon as its cloud does.
    fn tell_if_slow(&self, took: Duration) {
        let is_due = || self.shared.repeats.due("slow GetStatus").is_some();
        if took >= SLOW && is_due() {
            warn!(
                ?took,
                "the provider answers GetStatus slowly: it must answer from memory, within 100 ms, \
                 whatever its cloud does"
            );
        }
    }

    /// One heartbeat. Returns the boot id and how the provider is.
    async fn get_status(&self, session: &Session) -> Result<(String, ProviderState), Error> {
        let shared = &self.shared;
        let request = GetStatusRequest {};
        let channel = session.channel.clone();
        let status = send(&shared.metrics, channel, session.max_send_bytes, request).await?;
        let (state, health) = health::read(&status);
        shared.metrics.health(&health);
        shared.health.send_replace(health);
        Ok((status.boot_id, state))
    }
}

fn shutting_down() -> Loss {
    Loss::Disconnected("the provider is shutting down".into())
}

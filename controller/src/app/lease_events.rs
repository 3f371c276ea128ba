//! Events on the Lease about what concerns all Nodes and Services.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

use crate::options::config::Election;
use outrigger_kube::{
    events::{EventContent, ObjectRef, Recorder},
    leader,
};
use outrigger_provider::{Provider, ProviderState, Session};

/// Trouble that is over by then is a restart, an upgrade or a hiccup of the cloud: no event.
const GRACE: Duration = Duration::from_secs(10);

/// Records an event on the Lease of `election`, without an election nothing.
pub(super) fn recorder(
    election: Option<&Election>,
    recorder: Recorder,
) -> impl Fn(EventContent) + Clone + Send + Sync + 'static {
    let lease_of = |election: &Election| ObjectRef::lease(&election.namespace, &election.name, "");
    let lease = election.map(lease_of);
    move |event| {
        if let Some(lease) = &lease {
            recorder.event(lease.clone(), event);
        }
    }
}

/// The trouble that a provider has, as the reason of an event.
fn trouble(state: &ProviderState) -> Option<&'static str> {
    match state {
        ProviderState::Ready => None,
        ProviderState::Degraded { .. } => Some("ProviderDegraded"),
        ProviderState::Connecting | ProviderState::Starting | ProviderState::Down { .. } => {
            Some("ProviderDown")
        }
    }
}

/// Records what the state and the declarations of the provider give reason for. Never returns.
pub(super) async fn report(provider: Provider, record: impl Fn(EventContent)) {
    let host = leader::host();
    tokio::join!(
        report_state(provider.state(), &host, &record),
        report_grants(&provider, &record)
    );
}

/// Records `ProviderDown` when the provider of the replica on `host` has not served for [`GRACE`],
/// `ProviderDegraded` when it has been degraded for as long, and `ProviderUp` when it serves well again. Never
/// returns.
async fn report_state(
    mut state: watch::Receiver<ProviderState>,
    host: &str,
    record: impl Fn(EventContent),
) {
    let mut reported = None;
    loop {
        let now = trouble(&state.borrow());
        if now != reported {
            if now.is_some() && timeout(GRACE, until_another(&mut state, now)).await.is_ok() {
                continue;
            }
            reported = now;
            let how = state.borrow().to_string();
            match now {
                None => {
                    let message = format!("The provider of {host} serves again");
                    record(EventContent::normal("ProviderUp", &message));
                }
                Some(reason) => {
                    let serves = match reason {
                        "ProviderDegraded" => "serves, but not well",
                        _ => "does not serve",
                    };
                    let message = format!("The provider of {host} {serves} ({how})");
                    record(EventContent::warning(reason, &message));
                }
            }
        }
        until_another(&mut state, now).await;
    }
}

/// Records `EffectsNotGranted` when the provider declares prefixes under which the operator grants nothing, and when
/// they are others. Never returns.
async fn report_grants(provider: &Provider, record: impl Fn(EventContent)) {
    let mut reported = None;
    let report = |session: &Session| {
        let now = session.grants_missing();
        if now != reported
            && let Some(missing) = &now
        {
            record(EventContent::warning("EffectsNotGranted", missing));
        }
        reported = now;
    };
    provider.each_session(report).await;
}

/// Waits until the provider has other trouble, or none. Never returns once its handle is gone with the process.
async fn until_another(state: &mut watch::Receiver<ProviderState>, now: Option<&'static str>) {
    let reached = state.wait_for(|state| trouble(state) != now).await.is_ok();
    if !reached {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::time::{Instant, sleep};

    use super::*;
    use outrigger_provider::DownCause;

    fn down() -> ProviderState {
        ProviderState::Down {
            cause: DownCause::Disconnected,
            reason: "no provider answers".into(),
            since: Instant::now(),
        }
    }

    fn degraded() -> ProviderState {
        ProviderState::Degraded {
            reason: "its cloud is away".into(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_that_lasts_is_one_event_and_its_end_another() {
        let (sender, state) = watch::channel(ProviderState::Connecting);
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&said);
        let record = move |event: EventContent| {
            let EventContent {
                kind,
                reason,
                message,
            } = event;
            noted
                .lock()
                .push(format!("{} {reason}: {message}", kind.as_str()));
        };
        let script = async {
            sleep(GRACE / 2).await;
            sender.send_replace(ProviderState::Ready);
            sleep(GRACE).await;
            sender.send_replace(down());
            sleep(GRACE / 2).await;
            sender.send_replace(ProviderState::Ready);
            sleep(GRACE).await;
            assert!(said.lock().is_empty(), "{:?}", said.lock());

            sender.send_replace(down());
            sleep(GRACE * 2).await;
            sender.send_replace(degraded());
            sleep(GRACE * 2).await;
            sender.send_replace(down());
            sleep(GRACE / 2).await;
            sender.send_replace(degraded());
            sleep(GRACE).await;
            sender.send_replace(ProviderState::Ready);
            sleep(GRACE).await;
        };
        tokio::select! {
            () = report_state(state, "a_1", record) => unreachable!("it never returns"),
            () = script => {}
        }
        assert_eq!(
            *said.lock(),
            [
                "Warning ProviderDown: The provider of a_1 does not serve (down: no provider answers)",
                "Warning ProviderDegraded: The provider of a_1 serves, but not well (degraded: its cloud is away)",
                "Normal ProviderUp: The provider of a_1 serves again",
            ]
        );
    }
}

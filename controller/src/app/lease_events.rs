//! Events on the Lease about what concerns all Nodes and Services.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

use crate::{
    kube::events::{EventType, ObjectRef, Recorder},
    options::config::Election,
    provider::ProviderState,
};

/// A provider that is away for less is being restarted or upgraded: no event.
const GRACE: Duration = Duration::from_secs(10);

/// Records an event on the Lease of `election`, without an election nothing.
pub(super) fn recorder(
    election: Option<&Election>,
    recorder: Recorder,
) -> impl Fn(EventType, &'static str, String) + Clone + Send + Sync + 'static {
    let lease = election.map(lease_of);
    move |kind, reason, message| {
        if let Some(lease) = &lease {
            recorder.event(lease, kind, reason, message);
        }
    }
}

fn lease_of(election: &Election) -> ObjectRef {
    ObjectRef {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        namespace: election.namespace.as_str().into(),
        name: election.name.as_str().into(),
        uid: "".into(),
        resource_version: "".into(),
    }
}

/// Records `ProviderDown` when the provider of the replica on `host` has not served for [`GRACE`], and
/// `ProviderUp` when it serves again. Never returns.
pub(super) async fn report(
    mut state: watch::Receiver<ProviderState>,
    host: &str,
    record: impl Fn(EventType, &'static str, String),
) {
    loop {
        until(&mut state, false).await;
        if timeout(GRACE, until(&mut state, true)).await.is_ok() {
            continue;
        }
        let down = state.borrow().to_string();
        let message = format!("The provider of {host} does not serve ({down})");
        record(EventType::Warning, "ProviderDown", message);
        until(&mut state, true).await;
        let message = format!("The provider of {host} serves again");
        record(EventType::Normal, "ProviderUp", message);
    }
}

/// Waits until the provider serves, or does not. Never returns once its handle is gone with the process.
async fn until(state: &mut watch::Receiver<ProviderState>, serves: bool) {
    let reached = state
        .wait_for(|state| state.serves() == serves)
        .await
        .is_ok();
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
    use crate::provider::DownCause;

    fn down() -> ProviderState {
        ProviderState::Down {
            cause: DownCause::Disconnected,
            reason: "no provider answers".into(),
            since: Instant::now(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_two_events_and_a_restart_none() {
        let (sender, state) = watch::channel(ProviderState::Connecting);
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&said);
        let record = move |kind: EventType, reason: &'static str, message: String| {
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
            sender.send_replace(ProviderState::Ready);
            sleep(GRACE).await;
        };
        tokio::select! {
            () = report(state, "a_1", record) => unreachable!("it never returns"),
            () = script => {}
        }
        assert_eq!(
            *said.lock(),
            [
                "Warning ProviderDown: The provider of a_1 does not serve (down: no provider answers)",
                "Normal ProviderUp: The provider of a_1 serves again",
            ]
        );
    }
}

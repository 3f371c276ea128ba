//! Waiting for what shall come, and watching what shall not.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// For anything that has to happen, on a machine that is busy with other things.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

const EVERY: Duration = Duration::from_millis(50);

/// Waits until `probe` succeeds, and fails with its last complaint after [`DEADLINE`].
pub(crate) async fn until<T>(what: &str, probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    until_within(what, DEADLINE, probe).await
}

/// The same with another deadline.
pub(crate) async fn until_within<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + deadline;
    loop {
        let complaint = match probe().await {
            Ok(value) => return value,
            Err(complaint) => complaint,
        };
        assert!(
            Instant::now() < end,
            "{what}: not after {deadline:?}; {complaint}"
        );
        sleep(EVERY).await;
    }
}

/// Watches that `probe` succeeds all the time, and fails as soon as it does not.
pub(crate) async fn stays(
    what: &str,
    time: Duration,
    mut probe: impl AsyncFnMut() -> Result<(), String>,
) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if let Err(complaint) = probe().await {
            panic!("{what}: {complaint}");
        }
        sleep(EVERY).await;
    }
}

/// For probes: the condition, or what was seen instead.
pub(crate) fn holds(condition: bool, actual: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(actual()) }
}

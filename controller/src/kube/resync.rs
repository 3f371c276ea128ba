//! Goes over all that a store holds once in a long while, as client-go's informers do: what a lost
//! wake-up or a bug left undone does not stay so until the next restart.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::store::{Store, View};

/// Tells the subscribers of `store` about every object again, each time a period ends that is
/// drawn once between `min_period` and twice that (`--min-resync-period`), until `stop`. Costs no
/// request. Zero: never.
pub async fn run<V: View>(store: Arc<Store<V>>, min_period: Duration, stop: CancellationToken) {
    if min_period.is_zero() {
        return stop.cancelled().await;
    }
    let period = min_period.mul_f64(1.0 + fastrand::f64());
    stop.run_until_cancelled(async {
        loop {
            tokio::time::sleep(period).await;
            debug!(objects = store.len(), "looking at all objects again");
            store.resync();
        }
    })
    .await;
}

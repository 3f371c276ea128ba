//! Mistakes while the cloud hangs: threads that all wait for it, and work that no cancel ends.

use std::sync::Arc;

use outrigger_api::v1::{BatchGetInstancesRequest, GetStatusRequest};
use tokio::sync::Semaphore;

use super::Defect;
use crate::defects::cancelled::to_the_end;
use crate::defects::hook::On;

pub(super) fn defects() -> Vec<Defect> {
    vec![few_threads(), kept_threads()]
}

fn few_threads() -> Defect {
    let threads = Arc::new(Semaphore::new(16));
    Defect::new(
        "sixteen-threads",
        "The provider serves sixteen calls at a time, whichever they are.",
        &["RES-25"],
    )
    .around(On::Every, move |call, next| {
        let threads = Arc::clone(&threads);
        async move {
            let _thread = threads.acquire_owned().await;
            next.serve(call).await
        }
    })
}

fn kept_threads() -> Defect {
    let threads = Arc::new(Semaphore::new(128));
    let others = Arc::clone(&threads);
    Defect::new(
        "cancelled-lookups-keep-threads",
        "A lookup that is cancelled keeps its thread, one of 128, until the cloud answers.",
        &["RES-26"],
    )
    .call::<BatchGetInstancesRequest, _>(move |call, next| {
        let threads = Arc::clone(&threads);
        async move {
            let thread = threads.acquire_owned().await;
            to_the_end(async move {
                let _thread = thread;
                next.serve(call).await
            })
            .await
        }
    })
    .call::<GetStatusRequest, _>(move |call, next| {
        let threads = Arc::clone(&others);
        async move {
            let _thread = threads.acquire_owned().await;
            next.serve(call).await
        }
    })
}

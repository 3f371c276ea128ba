//! Mistakes while the cloud hangs: threads that all wait for it, and work that no cancel ends.

use outrigger_api::v1::{BatchGetInstancesRequest, GetStatusRequest};
use tokio::sync::Semaphore;

use super::{Defect, kept};
use crate::defects::cancelled::to_the_end;
use crate::defects::hook::On;

pub(super) fn defects() -> Vec<Defect> {
    vec![few_threads(), kept_threads()]
}

fn few_threads() -> Defect {
    let threads = kept(Semaphore::new(16));
    Defect::new("sixteen-threads").around(On::Every, move |call, next| async move {
        let _thread = threads.acquire().await;
        next.serve(call).await
    })
}

fn kept_threads() -> Defect {
    let threads = kept(Semaphore::new(128));
    Defect::new("cancelled-lookups-keep-threads")
        .call::<BatchGetInstancesRequest, _>(move |call, next| async move {
            let thread = threads.acquire().await;
            to_the_end(async move {
                let _thread = thread;
                next.serve(call).await
            })
            .await
        })
        .call::<GetStatusRequest, _>(move |call, next| async move {
            let _thread = threads.acquire().await;
            next.serve(call).await
        })
}

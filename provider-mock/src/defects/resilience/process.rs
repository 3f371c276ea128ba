//! Mistakes at the start and the end of a process.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    EnsureLoadBalancerRequest, ErrorReason, GetStatusRequest, HandshakeRequest,
};
use parking_lot::Mutex;
use tokio::time::sleep;
use tonic::Code;

use crate::defects::cancelled::Cancelled;
use crate::defects::hook::On;
use crate::defects::listening::Listening;
use crate::defects::load_balancers::key_of;
use crate::defects::{Defect, kept, refusal};
use crate::exchange::Answer;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        lock_of_the_dead(),
        Defect::new("keeps-a-stale-socket").listening(Listening::KeepsStale),
        Defect::new("fixed-boot-id")
            .answer::<HandshakeRequest>(|_, answer| {
                "image-1.0".clone_into(&mut answer.boot_id);
            })
            .answer::<GetStatusRequest>(|_, answer| {
                "image-1.0".clone_into(&mut answer.boot_id);
            }),
        Defect::new("leaves-its-socket").listening(Listening::LeavesSocket),
        Defect::new("ends-with-an-error").listening(Listening::Fails),
        Defect::new("revision-of-the-process").answer::<HandshakeRequest>(|_, answer| {
            let revision = answer.boot_id.clone();
            let declared = answer.capabilities.get_or_insert_default();
            let balancers = declared.load_balancers.get_or_insert_default();
            balancers.configuration_revision = revision;
        }),
        forgets_at_restart(),
        Defect::new("takes-a-live-socket").listening(Listening::TakesLive),
        Defect::new("ends-as-an-outage").error(On::of::<GetStatusRequest>(), |status| match status
            .code()
        {
            Code::Unavailable => refusal(ErrorReason::CloudUnavailable, status.message()),
            _ => status,
        }),
    ]
}

/// The lock of a key, beside the socket: it is there after the death of the process.
fn lock_of(key: &str) -> PathBuf {
    let endpoint = std::env::var(outrigger_api::ENDPOINT_ENV).unwrap_or_default();
    let socket = endpoint.trim_start_matches("unix://");
    PathBuf::from(format!("{socket}.{key}.lock"))
}

fn lock_of_the_dead() -> Defect {
    Defect::new("lock-of-the-dead").call::<EnsureLoadBalancerRequest, _>(|call, next| async move {
        let lock = lock_of(&key_of(&call));
        let made = std::fs::File::create_new(&lock);
        if made.is_err() {
            let text = "another process holds the lock";
            return Answer::failed(refusal(ErrorReason::OperationInProgress, text));
        }
        let _ended = Cancelled::new(move || {
            // It is there: this call has made it.
            let _ = std::fs::remove_file(lock);
        });
        sleep(Duration::from_millis(30)).await;
        next.serve(call).await
    })
}

fn forgets_at_restart() -> Defect {
    let ensured: &Mutex<BTreeSet<String>> = kept(Mutex::default());
    Defect::new("forgets-at-restart")
        .call::<EnsureLoadBalancerRequest, _>(move |call, next| {
            ensured.lock().insert(key_of(&call));
            next.serve(call)
        })
        .get_answer(move |service, answer| {
            if !ensured.lock().contains(&service.uid) {
                answer.set_disposition(D::Absent);
            }
        })
}

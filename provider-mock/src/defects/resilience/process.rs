//! Mistakes at the start and the end of a process.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
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
use crate::defects::listening::{End, Listening};
use crate::defects::load_balancers::key_of;
use crate::defects::{Defect, refusal};
use crate::exchange::Answer;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        lock_of_the_dead(),
        Defect::new(
            "keeps-a-stale-socket",
            "A provider that finds a socket ends, and removes the socket for its next start.",
            // Each of them kills it.
            &[
                "NDS-08", "RES-01", "RES-14", "RES-15", "RES-18", "RES-22", "RES-24",
            ],
        )
        .listening(Listening {
            keeps_stale: true,
            ..Listening::default()
        }),
        Defect::new(
            "fixed-boot-id",
            "The boot_id is that of the image.",
            &["RES-15"],
        )
        .answer::<HandshakeRequest>(|_, answer| {
            "image-1.0".clone_into(&mut answer.boot_id);
        })
        .answer::<GetStatusRequest>(|_, answer| {
            "image-1.0".clone_into(&mut answer.boot_id);
        }),
        Defect::new(
            "leaves-its-socket",
            "The socket is there after the end of the provider.",
            &["RES-10"],
        )
        .listening(Listening {
            end: End::LeavesSocket,
            ..Listening::default()
        }),
        Defect::new(
            "ends-with-an-error",
            "The process ends with another exit code than 0 after SIGTERM, as a virtual machine does that has no handler.",
            &["RES-10"],
        )
        .listening(Listening {
            end: End::Fails,
            ..Listening::default()
        }),
        Defect::new(
            "revision-of-the-process",
            "The configuration revision is made when the process starts.",
            &["RES-24"],
        )
        .answer::<HandshakeRequest>(|_, answer| {
            let revision = answer.boot_id.clone();
            let declared = answer.capabilities.get_or_insert_default();
            let balancers = declared.load_balancers.get_or_insert_default();
            balancers.configuration_revision = revision;
        }),
        forgets_at_restart(),
        Defect::new(
            "takes-a-live-socket",
            "The provider takes each socket that is there for one of a dead process.",
            &["RES-22"],
        )
        .listening(Listening {
            takes_live: true,
            ..Listening::default()
        }),
        Defect::new(
            "ends-as-an-outage",
            "A call after SIGTERM is CLOUD_UNAVAILABLE.",
            &["RES-21"],
        )
        .error(On::of::<GetStatusRequest>(), |status| match status.code() {
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
    Defect::new(
        "lock-of-the-dead",
        "An Ensure takes a lock file, which the death of the process leaves behind.",
        &["RES-01"],
    )
    .call::<EnsureLoadBalancerRequest, _>(|call, next| async move {
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
    let ensured: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let known = Arc::clone(&ensured);
    Defect::new(
        "forgets-at-restart",
        "A load balancer is lost with the process that made it, and the provider does not say so.",
        &["RES-18"],
    )
    .call::<EnsureLoadBalancerRequest, _>(move |call, next| {
        ensured.lock().insert(key_of(&call));
        next.serve(call)
    })
    .get_answer(move |service, answer| {
        if !known.lock().contains(&service.uid) {
            answer.set_disposition(D::Absent);
        }
    })
}

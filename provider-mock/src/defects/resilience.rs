//! Mistakes where connections break, calls are cancelled, and processes end.

mod hanging;
mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outrigger_api::MethodRequest;
use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    BatchGetInstancesRequest, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ErrorReason,
    ListInstancesRequest, ListLoadBalancersRequest, LoadBalancerIdentity, OwnedLoadBalancer,
    ServiceRef,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tonic::Status;

use super::cancelled::Cancelled;
use super::load_balancers::{delete, key_of, service_of};
use super::{Defect, refusal};
use crate::exchange::Answer;

/// How long a cloud may take, so that calls meet.
const A_WHILE: Duration = Duration::from_millis(20);

pub(super) fn defects() -> Vec<Defect> {
    let mut defects = vec![
        leaves_a_lock::<BatchGetInstancesRequest>(
            "cancelled-lookup-locks",
            "A lookup that is cancelled leaves the lock of the cache taken.",
            // Until the process ends.
            &["RES-02", "RES-11", "RES-12", "RES-13", "RES-20"],
        ),
        leaves_a_lock::<ListInstancesRequest>(
            "abandoned-list-locks",
            "A list whose reader goes away leaves the lock of the cache taken.",
            &["RES-20"],
        ),
        acts_after_cancel(
            "goes-on-after-cancel",
            "An Ensure that is cancelled makes its cloud changes later all the same.",
            &["RES-23"],
            Duration::from_millis(2_800),
            true,
        )
        // A list may come between the late creation and the end of it, and what is made late counts for the quota.
        .by_chance(&["RES-05", "RES-09"]),
        acts_after_cancel(
            "rolls-back-late",
            "An Ensure that is cancelled is undone a second later, also where another one came since.",
            &["RES-23"],
            Duration::from_secs(1),
            false,
        ),
        Defect::new(
            "eight-at-once",
            "The provider fails the ninth Ensure of as many at once.",
            &["RES-05"],
        )
        .call::<EnsureLoadBalancerRequest, _>({
            let free = Arc::new(Semaphore::new(8));
            move |call, next| {
                let free = Arc::clone(&free);
                async move {
                    let Ok(_permit) = free.try_acquire() else {
                        let text = "500: too many requests";
                        return Answer::failed(refusal(ErrorReason::CloudError, text));
                    };
                    sleep(A_WHILE).await;
                    next.serve(call).await
                }
            }
        }),
        second_delete_fails(),
        delete_meets_ensure(),
        deleted_is_listed(),
    ];
    defects.extend(hanging::defects());
    defects.extend(process::defects());
    defects
}

/// A call that is cancelled leaves a lock taken, so that no lookup is served until the process ends.
fn leaves_a_lock<Q: MethodRequest>(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
) -> Defect {
    let taken: Arc<AtomicBool> = Arc::default();
    let known = Arc::clone(&taken);
    Defect::new(name, sentence, cases)
        .call::<BatchGetInstancesRequest, _>(move |call, next| {
            let is_taken = known.load(Ordering::Relaxed);
            async move {
                if is_taken {
                    return Answer::failed(Status::unavailable("the lock is taken"));
                }
                next.serve(call).await
            }
        })
        .call::<Q, _>(move |call, next| {
            let taken = Arc::clone(&taken);
            async move {
                let cancelled = Cancelled::new(move || taken.store(true, Ordering::Relaxed));
                sleep(A_WHILE).await;
                let answer = next.serve(call).await;
                cancelled.done();
                answer
            }
        })
}

/// An Ensure that is cancelled is undone later; before that it is carried out, or not.
#[expect(
    clippy::disallowed_methods,
    reason = "the mistake is that no owner watches it"
)]
fn acts_after_cancel(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    later: Duration,
    carries_out: bool,
) -> Defect {
    Defect::new(name, sentence, cases).call::<EnsureLoadBalancerRequest, _>(
        move |call, next| async move {
            let (cancelled_call, behind) = (call.clone(), next.clone());
            let cancelled = Cancelled::new(move || {
                tokio::spawn(async move {
                    sleep(later).await;
                    if carries_out {
                        behind.correct(cancelled_call.clone()).await;
                    }
                    delete(&cancelled_call, &behind, service_of(&cancelled_call)).await;
                });
            });
            sleep(A_WHILE / 2).await;
            let answer = next.serve(call).await;
            cancelled.done();
            answer
        },
    )
}

/// Counts the calls of a key that run.
type Running = Arc<Mutex<BTreeMap<String, usize>>>;

fn second_delete_fails() -> Defect {
    let running = Running::default();
    Defect::new(
        "second-delete-fails",
        "A Delete that finds the load balancer in deletion is an error of the cloud.",
        &["RES-16"],
    )
    .call::<DeleteLoadBalancerRequest, _>(move |call, next| {
        let running = Arc::clone(&running);
        async move {
            let key = key_of(&call);
            let count = {
                let mut running = running.lock();
                let count = running.entry(key.clone()).or_default();
                *count += 1;
                *count
            };
            let _ended = Cancelled::new(move || {
                running.lock().entry(key).and_modify(|count| *count -= 1);
            });
            if count > 1 {
                let text = "422: the load balancer is being deleted";
                return Answer::failed(refusal(ErrorReason::CloudError, text));
            }
            sleep(A_WHILE).await;
            next.serve(call).await
        }
    })
}

fn delete_meets_ensure() -> Defect {
    let running: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let met: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (ensuring, known) = (Arc::clone(&running), Arc::clone(&met));
    Defect::new(
        "delete-meets-ensure",
        "A Delete during an Ensure leaves a load balancer that no further Delete finds.",
        &["RES-17"],
    )
    .by_chance(&["LBS-13"])
    .call::<EnsureLoadBalancerRequest, _>(move |call, next| {
        let ensuring = Arc::clone(&ensuring);
        async move {
            let key = key_of(&call);
            ensuring.lock().insert(key.clone());
            let _ended = Cancelled::new(move || {
                ensuring.lock().remove(&key);
            });
            sleep(A_WHILE).await;
            next.serve(call).await
        }
    })
    .call::<DeleteLoadBalancerRequest, _>(move |call, next| {
        let key = key_of(&call);
        let (running, met) = (Arc::clone(&running), Arc::clone(&met));
        async move {
            // The Ensure of another connection may arrive a moment later.
            sleep(A_WHILE / 2).await;
            if running.lock().contains(&key) {
                met.lock().insert(key);
            }
            next.serve(call).await
        }
    })
    .get_answer(move |service, answer| {
        if answer.disposition() == D::Absent && known.lock().contains(&service.uid) {
            answer.set_disposition(D::Ready);
        }
    })
}

fn deleted_is_listed() -> Defect {
    let parts: Arc<Mutex<BTreeMap<String, ServiceRef>>> = Arc::default();
    let known = Arc::clone(&parts);
    Defect::new(
        "deletes-half",
        "A Delete leaves the address of the load balancer in the cloud.",
        &["RES-09"],
    )
    .deleted(move |service| {
        let tag = ServiceRef {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            uid: format!("address-of-{}", service.uid),
        };
        parts.lock().insert(service.uid.clone(), tag);
    })
    .listed::<ListLoadBalancersRequest>(move |entries| {
        let parts = known.lock();
        entries.extend(parts.values().map(|tag| OwnedLoadBalancer {
            service: Some(tag.clone()),
            identity: Some(LoadBalancerIdentity {
                id: tag.uid.clone(),
                ..LoadBalancerIdentity::default()
            }),
            ..OwnedLoadBalancer::default()
        }));
    })
}

//! Mistakes where connections break, calls are cancelled or hang, and processes end.

mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outrigger_api::MethodRequest;
use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    BatchGetInstancesRequest, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ErrorReason,
    GetStatusRequest, ListInstancesRequest, ListLoadBalancersRequest, LoadBalancerIdentity,
    OwnedLoadBalancer, ServiceRef,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tonic::Status;

use super::cancelled::{Cancelled, to_the_end};
use super::hook::On;
use super::load_balancers::{delete, key_of, service_of};
use super::{Defect, kept, refusal};
use crate::exchange::Answer;

/// How long a cloud may take, so that calls meet.
const A_WHILE: Duration = Duration::from_millis(20);

pub(super) fn defects() -> Vec<Defect> {
    let mut defects = vec![
        few_threads(),
        kept_threads(),
        leaves_a_lock::<BatchGetInstancesRequest>("cancelled-lookup-locks"),
        leaves_a_lock::<ListInstancesRequest>("abandoned-list-locks"),
        acts_after_cancel("goes-on-after-cancel", Duration::from_millis(2_800), true),
        acts_after_cancel("rolls-back-late", Duration::from_secs(1), false),
        Defect::new("eight-at-once").call::<EnsureLoadBalancerRequest, _>({
            let free = kept(Semaphore::new(8));
            move |call, next| async move {
                let Ok(_permit) = free.try_acquire() else {
                    let text = "500: too many requests";
                    return Answer::failed(refusal(ErrorReason::CloudError, text));
                };
                sleep(A_WHILE).await;
                next.serve(call).await
            }
        }),
        second_delete_fails(),
        delete_meets_ensure(),
        deleted_is_listed(),
    ];
    defects.extend(process::defects());
    defects
}

/// A call that is cancelled leaves a lock taken, so that no lookup is served until the process ends.
fn leaves_a_lock<Q: MethodRequest>(name: &'static str) -> Defect {
    let taken = kept(AtomicBool::new(false));
    Defect::new(name)
        .refuses(move |_: &BatchGetInstancesRequest| {
            let is_taken = taken.load(Ordering::Relaxed);
            is_taken.then(|| Status::unavailable("the lock is taken"))
        })
        .cancelled::<Q>(A_WHILE, move |_| taken.store(true, Ordering::Relaxed))
}

/// An Ensure that is cancelled is undone later; before that it is carried out, or not.
#[expect(
    clippy::disallowed_methods,
    reason = "the mistake is that no owner watches it"
)]
fn acts_after_cancel(name: &'static str, later: Duration, carries_out: bool) -> Defect {
    Defect::new(name).call::<EnsureLoadBalancerRequest, _>(move |call, next| async move {
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
    })
}

/// Counts the calls of a key that run.
type Running = &'static Mutex<BTreeMap<String, usize>>;

fn second_delete_fails() -> Defect {
    let running: Running = kept(Mutex::default());
    Defect::new("second-delete-fails").call::<DeleteLoadBalancerRequest, _>(
        move |call, next| async move {
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
        },
    )
}

fn delete_meets_ensure() -> Defect {
    let running: &Mutex<BTreeSet<String>> = kept(Mutex::default());
    let met: &Mutex<BTreeSet<String>> = kept(Mutex::default());
    Defect::new("delete-meets-ensure")
        .call::<EnsureLoadBalancerRequest, _>(move |call, next| async move {
            let key = key_of(&call);
            running.lock().insert(key.clone());
            let _ended = Cancelled::new(move || {
                running.lock().remove(&key);
            });
            sleep(A_WHILE).await;
            next.serve(call).await
        })
        .call::<DeleteLoadBalancerRequest, _>(move |call, next| {
            let key = key_of(&call);
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
            if answer.disposition() == D::Absent && met.lock().contains(&service.uid) {
                answer.set_disposition(D::Ready);
            }
        })
}

fn deleted_is_listed() -> Defect {
    let parts: &Mutex<BTreeMap<String, ServiceRef>> = kept(Mutex::default());
    Defect::new("deletes-half")
        .deleted(move |service| {
            let tag = ServiceRef {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
                uid: format!("address-of-{}", service.uid),
            };
            parts.lock().insert(service.uid.clone(), tag);
        })
        .listed::<ListLoadBalancersRequest>(move |entries| {
            let parts = parts.lock();
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

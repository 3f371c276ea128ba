//! Mistakes that take more than steps: locks, threads, files, and what goes on after a call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use outrigger_api::MethodRequest as _;
use outrigger_api::v1::{
    BatchGetInstancesRequest, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ErrorReason,
    GetStatusRequest, ListInstancesRequest, ServicePort, SyncNodeSetRequest,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::cancelled::{Cancelled, to_the_end};
use super::hook::{Next, On};
use super::{Defect, kept};
use crate::exchange::{Answer, Call};
use crate::faults::InjectedError;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        closes_idle(),
        lock_while_sent(),
        few_threads(),
        kept_threads(),
        acts_after_cancel("goes-on-after-cancel", Duration::from_millis(2_800), true),
        acts_after_cancel("rolls-back-late", Duration::from_secs(1), false),
        lock_of_the_dead(),
        with_first_ports("ports-are-kept", |first, ports| *ports = first.to_vec()),
        with_first_ports("protocols-are-kept", |first, ports| {
            for port in ports {
                let same = |first: &&ServicePort| first.port == port.port;
                if let Some(first) = first.iter().find(same) {
                    port.protocol.clone_from(&first.protocol);
                }
            }
        }),
        last_name_wins(),
        half_close_commits(),
    ]
}

/// Each call is a sign of life of its connection.
#[expect(
    clippy::disallowed_methods,
    reason = "no owner watches a connection that is idle"
)]
fn closes_idle() -> Defect {
    const LIMIT: Duration = Duration::from_millis(800);
    let calls: &Mutex<BTreeMap<u64, usize>> = kept(Mutex::default());
    let count = move |number: u64| calls.lock().get(&number).copied();
    Defect::new("closes-idle").around(On::Every, move |call, next| {
        if let Some(peer) = call.peer().cloned() {
            *calls.lock().entry(peer.number).or_default() += 1;
            let latest = count(peer.number);
            tokio::spawn(async move {
                sleep(LIMIT).await;
                if count(peer.number) == latest {
                    peer.close.cancel();
                }
            });
        }
        next.serve(call)
    })
}

fn lock_while_sent() -> Defect {
    let cache = kept(tokio::sync::Mutex::new(()));
    Defect::new("lock-while-sent")
        .call::<ListInstancesRequest, _>(move |call, next| async move {
            let held = cache.lock().await;
            next.serve(call).await.holding(held)
        })
        .call::<GetStatusRequest, _>(move |call, next| async move {
            let _held = cache.lock().await;
            next.serve(call).await
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
                delete(&cancelled_call, &behind).await;
            });
        });
        sleep(Duration::from_millis(10)).await;
        let answer = next.serve(call).await;
        cancelled.done();
        answer
    })
}

/// Deletes the load balancer of a call, whatever comes of it.
async fn delete(call: &Call, next: &Next) {
    // Context and Service have the same place in each request.
    let request: DeleteLoadBalancerRequest = call.message();
    let path = DeleteLoadBalancerRequest::METHOD.path;
    next.correct(call.other(path, &request)).await;
}

/// The lock of a key, beside the socket: it is there after the death of the process.
fn lock_of(key: &str) -> PathBuf {
    let endpoint = std::env::var(outrigger_api::ENDPOINT_ENV).unwrap_or_default();
    let socket = endpoint.trim_start_matches("unix://");
    PathBuf::from(format!("{socket}.{key}.lock"))
}

fn lock_of_the_dead() -> Defect {
    Defect::new("lock-of-the-dead").call::<EnsureLoadBalancerRequest, _>(|call, next| async move {
        let request: EnsureLoadBalancerRequest = call.message();
        let lock = lock_of(&request.service.unwrap_or_default().uid);
        if std::fs::File::create_new(&lock).is_err() {
            let text = "another process holds the lock";
            let reason = ErrorReason::OperationInProgress;
            return Answer::failed(InjectedError::of(reason, text).to_status());
        }
        let _ended = Cancelled::new(move || {
            // It is there: this call has made it.
            let _ = std::fs::remove_file(lock);
        });
        sleep(Duration::from_millis(30)).await;
        next.serve(call).await
    })
}

/// The ports with which a Service was first ensured, until it is deleted.
fn with_first_ports(
    name: &'static str,
    merge: fn(&[ServicePort], &mut Vec<ServicePort>),
) -> Defect {
    let first: &Mutex<BTreeMap<String, Vec<ServicePort>>> = kept(Mutex::default());
    Defect::new(name)
        .request(move |request: &mut EnsureLoadBalancerRequest| {
            let Some(service) = &mut request.service else {
                return;
            };
            let mut first = first.lock();
            let ports = first.entry(service.uid.clone());
            let ports = ports.or_insert_with(|| service.ports.clone());
            merge(ports, &mut service.ports);
        })
        .request(move |request: &mut DeleteLoadBalancerRequest| {
            if let Some(service) = &request.service {
                first.lock().remove(&service.uid);
            }
        })
}

fn last_name_wins() -> Defect {
    Defect::new("last-name-wins").call::<SyncNodeSetRequest, _>(|call, next| {
        let mut upload = Upload::of(&call);
        let mut nodes = BTreeMap::new();
        let all = upload.count();
        for message in &mut upload.0 {
            let some = std::mem::take(&mut message.nodes);
            nodes.extend(some.into_iter().map(|node| (node.name.clone(), node)));
        }
        let lost = (all - nodes.len()) as u32;
        if let Some(last) = upload.0.last_mut() {
            last.nodes = nodes.into_values().collect();
            last.node_count = last.node_count.saturating_sub(lost);
        }
        next.serve(upload.of_call(call))
    })
}

fn half_close_commits() -> Defect {
    Defect::new("half-close-commits").call::<SyncNodeSetRequest, _>(|call, next| async move {
        let mut upload = Upload::of(&call);
        let count = upload.count() as u32;
        if let Some(last) = upload.0.last_mut().filter(|last| !last.complete) {
            last.complete = true;
            last.node_count = count;
            if last.revision.is_empty() {
                "cut".clone_into(&mut last.revision);
            }
        }
        to_the_end(next.serve(upload.of_call(call))).await
    })
}

/// The messages of an upload of the node set.
pub(super) struct Upload(pub(super) Vec<SyncNodeSetRequest>);

impl Upload {
    pub(super) fn of(call: &Call) -> Self {
        let messages = call.messages.iter();
        let read = |bytes: &Vec<u8>| SyncNodeSetRequest::decode(bytes.as_slice());
        Self(messages.map(|one| read(one).unwrap_or_default()).collect())
    }

    /// The call with these messages.
    fn of_call(&self, mut call: Call) -> Call {
        call.messages = self.0.iter().map(Message::encode_to_vec).collect();
        call
    }

    pub(super) fn revision(&self) -> &str {
        self.0.last().map_or("", |last| &last.revision)
    }

    /// The nodes of all messages.
    fn count(&self) -> usize {
        self.0.iter().map(|one| one.nodes.len()).sum()
    }
}

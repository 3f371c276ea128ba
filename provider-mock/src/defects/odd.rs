//! Mistakes that take more than steps: threads, what goes on after a call, and uploads as a whole.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_api::MethodRequest as _;
use outrigger_api::v1::{
    BatchGetInstancesRequest, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest,
    GetStatusRequest, SyncNodeSetRequest,
};
use prost::Message;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::cancelled::{Cancelled, to_the_end};
use super::{Defect, kept};
use crate::exchange::Call;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        kept_threads(),
        goes_on_after_cancel(),
        last_name_wins(),
        half_close_commits(),
    ]
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

/// An Ensure that is cancelled is carried out later, and undone.
#[expect(
    clippy::disallowed_methods,
    reason = "the mistake is that no owner watches it"
)]
fn goes_on_after_cancel() -> Defect {
    Defect::new("goes-on-after-cancel").call::<EnsureLoadBalancerRequest, _>(
        move |call, next| async move {
            let (cancelled_call, behind) = (call.clone(), next.clone());
            let cancelled = Cancelled::new(move || {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(2_800)).await;
                    behind.correct(cancelled_call.clone()).await;
                    // Context and Service have the same place in each request.
                    let request: DeleteLoadBalancerRequest = cancelled_call.message();
                    let path = DeleteLoadBalancerRequest::METHOD.path;
                    behind.correct(cancelled_call.other(path, &request)).await;
                });
            });
            sleep(Duration::from_millis(10)).await;
            let answer = next.serve(call).await;
            cancelled.done();
            answer
        },
    )
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

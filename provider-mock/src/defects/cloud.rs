//! Mistakes over a cloud that refuses, and in what calls cost it.

use outrigger_api::v1::{
    BatchGetInstancesRequest, BatchGetInstancesResponse, EnsureLoadBalancerRequest, ErrorReason,
    GetStatusRequest, Readiness,
};
use tonic::{Code, Status};

use super::hook::{Next, On};
use super::{Defect, refusal};
use crate::exchange::{Answer, Call};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("looks-up-one-by-one").call::<BatchGetInstancesRequest, _>(one_by_one),
        Defect::new("rate-limit-is-an-outage").error(
            On::of::<BatchGetInstancesRequest>(),
            instead_of(Code::ResourceExhausted, ErrorReason::CloudUnavailable),
        ),
        Defect::new("credentials-are-a-permission").error(
            On::of::<BatchGetInstancesRequest>(),
            instead_of(Code::Unauthenticated, ErrorReason::PermissionMissing),
        ),
        Defect::new("ready-without-credentials").answer::<GetStatusRequest>(|_, answer| {
            answer.set_readiness(Readiness::Ready);
        }),
        Defect::new("quota-is-a-rate-limit").error(
            On::of::<EnsureLoadBalancerRequest>(),
            instead_of(Code::ResourceExhausted, ErrorReason::RateLimited),
        ),
    ]
}

/// Another reason for the errors of a code.
fn instead_of(code: Code, reason: ErrorReason) -> impl Fn(Status) -> Status + Send + Sync {
    move |status| {
        if status.code() == code {
            refusal(reason, status.message())
        } else {
            status
        }
    }
}

async fn one_by_one(call: Call, next: Next) -> Answer {
    let request: BatchGetInstancesRequest = call.message();
    let mut all = BatchGetInstancesResponse::default();
    for node in &request.items {
        let one = BatchGetInstancesRequest {
            items: vec![node.clone()],
            ..request.clone()
        };
        let answer = next.correct(call.clone().with(&one)).await;
        if answer.error().is_some() {
            return answer;
        }
        for part in answer.messages::<BatchGetInstancesResponse>() {
            all.results.extend(part.results);
        }
    }
    Answer::ok(&all)
}

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
        Defect::new(
            "looks-up-one-by-one",
            "A lookup of many nodes is one call to the cloud for each of them.",
            &["INS-16"],
        )
        .call::<BatchGetInstancesRequest, _>(one_by_one),
        Defect::new(
            "rate-limit-is-an-outage",
            "A lookup that the rate limit refuses is CLOUD_UNAVAILABLE.",
            &["INS-33"],
        )
        .error(
            On::of::<BatchGetInstancesRequest>(),
            instead_of(Code::ResourceExhausted, ErrorReason::CloudUnavailable),
        ),
        Defect::new(
            "credentials-are-a-permission",
            "A lookup with refused credentials is PERMISSION_MISSING.",
            &["INS-34"],
        )
        .error(
            On::of::<BatchGetInstancesRequest>(),
            instead_of(Code::Unauthenticated, ErrorReason::PermissionMissing),
        ),
        Defect::new(
            "ready-without-credentials",
            "GetStatus is READY as long as the process runs.",
            &["IDN-15"],
        )
        .answer::<GetStatusRequest>(|_, answer| {
            answer.set_readiness(Readiness::Ready);
        }),
        Defect::new(
            "quota-is-a-rate-limit",
            "A load balancer beyond the quota of the account is RATE_LIMITED.",
            &["LBS-45"],
        )
        .error(
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

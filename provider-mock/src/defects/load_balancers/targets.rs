//! Mistakes about the targets of load balancers.

use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    EnsureLoadBalancerRequest, EnsureLoadBalancerResponse, InlineNodes, LoadBalancerAnswer,
    NodeTargets, Service, UpdateLoadBalancerNodesRequest, UpdateLoadBalancerNodesResponse,
    node_targets::Targets,
};

use super::{seen, service_of};
use crate::defects::Defect;
use crate::defects::hook::Next;
use crate::exchange::{Answer, Call};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        waits_for_a_target(),
        update_changes_nothing(),
        update_creates(),
        update_resets_ports(),
    ]
}

fn waits_for_a_target() -> Defect {
    Defect::new("waits-for-a-target").call::<EnsureLoadBalancerRequest, _>(
        |call, next| async move {
            let mut answer = next.correct(call.clone()).await;
            let none = NodeTargets {
                targets: Some(Targets::Inline(InlineNodes::default())),
            };
            let existing = seen(&call, &next, service_of(&call), Some(none)).await;
            if existing.disposition() == D::Ready {
                answer.each(|message: &mut EnsureLoadBalancerResponse| {
                    let answer = message.answer.get_or_insert_default();
                    answer.set_disposition(D::InProgress);
                    answer.retry_after = Some(prost_types::Duration {
                        seconds: 1,
                        nanos: 0,
                    });
                });
            }
            answer
        },
    )
}

/// Each load balancer that exists is READY, unchanged.
fn update_changes_nothing() -> Defect {
    Defect::new("update-changes-nothing").call::<UpdateLoadBalancerNodesRequest, _>(
        |call, next| async move {
            let existing = seen(&call, &next, service_of(&call), None).await;
            if existing.disposition() == D::Absent {
                return next.serve(call).await;
            }
            let answer = Some(LoadBalancerAnswer {
                disposition: D::Ready.into(),
                ..LoadBalancerAnswer::default()
            });
            Answer::ok(&UpdateLoadBalancerNodesResponse { answer })
        },
    )
}

/// Ensures the Service of an update with its targets, after it.
async fn ensure(call: &Call, next: &Next, change: fn(&mut Service)) {
    let request: UpdateLoadBalancerNodesRequest = call.message();
    let mut ensure = EnsureLoadBalancerRequest {
        context: request.context,
        service: request.service,
        targets: request.targets,
        identity: None,
    };
    ensure.service.iter_mut().for_each(change);
    next.ask(call, &ensure).await;
}

fn update_creates() -> Defect {
    Defect::new("update-creates").call::<UpdateLoadBalancerNodesRequest, _>(
        |call, next| async move {
            let answer = next.correct(call.clone()).await;
            ensure(&call, &next, |_| {}).await;
            answer
        },
    )
}

fn update_resets_ports() -> Defect {
    Defect::new("update-resets-ports").call::<UpdateLoadBalancerNodesRequest, _>(
        |call, next| async move {
            let answer = next.correct(call.clone()).await;
            let messages = answer.messages::<UpdateLoadBalancerNodesResponse>();
            let answers = messages.into_iter().filter_map(|one| one.answer);
            if { answers }.any(|one| one.disposition() == D::Ready) {
                let reset = |service: &mut Service| {
                    for port in &mut service.ports {
                        port.port = 8_080;
                    }
                };
                ensure(&call, &next, reset).await;
            }
            answer
        },
    )
}

//! Mistakes about the targets of load balancers.

use outrigger_api::ItemResult as _;
use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    EnsureLoadBalancerRequest, EnsureLoadBalancerResponse, ErrorReason, InlineNodes,
    LoadBalancerAnswer, LoadBalancerResult, NodeTargets, Service, UpdateLoadBalancerNodesRequest,
    UpdateLoadBalancerNodesResponse, load_balancer_result::Outcome, node_targets::Targets,
};

use super::{seen, service_of};
use crate::defects::hook::Next;
use crate::defects::{Defect, item, refusal};
use crate::exchange::{Answer, Call};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        waits_for_a_target(),
        update_changes_nothing(),
        update_creates(),
        update_resets_ports(),
        one_fails_the_update(),
        fails_as_a_whole(
            "class-fails-the-update",
            ErrorReason::InvalidRequest,
            |service| service.load_balancer_class.is_some(),
        ),
        fails_as_a_whole(
            "annotation-fails-the-update",
            ErrorReason::InvalidAnnotation,
            |service| {
                service
                    .annotations
                    .values()
                    .any(|value| value == "nonsense")
            },
        ),
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
            let request: UpdateLoadBalancerNodesRequest = call.message();
            if request.items.is_empty() {
                return next.serve(call).await;
            }
            let mut results = Vec::new();
            for service in request.items {
                let uid = service.uid.clone();
                let existing = seen(&call, &next, service, None).await;
                let exists = existing.disposition() != D::Absent;
                let disposition = if exists { D::Ready } else { D::Absent };
                let answer = LoadBalancerAnswer {
                    disposition: disposition.into(),
                    ..LoadBalancerAnswer::default()
                };
                results.push(LoadBalancerResult::new(uid, Outcome::Found(answer)));
            }
            Answer::ok(&UpdateLoadBalancerNodesResponse { results })
        },
    )
}

/// Ensures the Services of an update with its targets, after it.
async fn ensure(
    call: &Call,
    next: &Next,
    services: impl IntoIterator<Item = Service> + Send,
    targets: Option<NodeTargets>,
) {
    let services: Vec<Service> = services.into_iter().collect();
    for service in services {
        let request: UpdateLoadBalancerNodesRequest = call.message();
        let ensure = EnsureLoadBalancerRequest {
            context: request.context,
            service: Some(service),
            targets: targets.clone(),
        };
        next.ask(call, &ensure).await;
    }
}

fn update_creates() -> Defect {
    Defect::new("update-creates").call::<UpdateLoadBalancerNodesRequest, _>(
        |call, next| async move {
            let request: UpdateLoadBalancerNodesRequest = call.message();
            let answer = next.correct(call.clone()).await;
            ensure(&call, &next, request.items, request.targets).await;
            answer
        },
    )
}

fn update_resets_ports() -> Defect {
    Defect::new("update-resets-ports").call::<UpdateLoadBalancerNodesRequest, _>(
        |call, next| async move {
            let request: UpdateLoadBalancerNodesRequest = call.message();
            let answer = next.correct(call.clone()).await;
            let results = answer.messages::<UpdateLoadBalancerNodesResponse>();
            let results: Vec<_> = results.into_iter().flat_map(|one| one.results).collect();
            let exists = |service: &Service| {
                results.iter().any(|one| {
                    one.key == service.uid
                        && matches!(&one.outcome, Some(Outcome::Found(answer))
                        if answer.disposition() == D::Ready)
                })
            };
            let services = request.items.into_iter().filter(exists);
            let services = services.map(|mut service| {
                for port in &mut service.ports {
                    port.port = 8_080;
                }
                service
            });
            let services: Vec<_> = services.collect();
            ensure(&call, &next, services, request.targets).await;
            answer
        },
    )
}

fn one_fails_the_update() -> Defect {
    Defect::new("one-fails-the-update").results(|_: &UpdateLoadBalancerNodesRequest, results| {
        let is_absent = |one: &LoadBalancerResult| {
            matches!(&one.outcome, Some(Outcome::Found(answer))
                if answer.disposition() == D::Absent)
        };
        if results.iter().any(is_absent) {
            let text = "404: there is no such load balancer";
            for one in results {
                one.outcome = Some(Outcome::Error(item(ErrorReason::CloudError, text)));
            }
        }
    })
}

fn fails_as_a_whole(
    name: &'static str,
    reason: ErrorReason,
    is_bad: fn(&Service) -> bool,
) -> Defect {
    Defect::new(name).refuses(move |request: &UpdateLoadBalancerNodesRequest| {
        let bad = request.items.iter().find(|service| is_bad(service));
        bad.map(|service| refusal(reason, &format!("{} is refused", service.name)))
    })
}

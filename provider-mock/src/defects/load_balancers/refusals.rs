//! Mistakes about Services that have to be refused, or that are another controller's.

use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ErrorReason, InlineNodes,
    LoadBalancerAnswer, NodeTargets, Service, node_targets::Targets,
};

use super::{delete, service_of};
use crate::defects::{Defect, reason, refusal};
use crate::load_balancers::ANNOTATION_PREFIX;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("bad-annotation-is-ignored").ensured(without_annotations),
        Defect::new("refuses-late").call::<EnsureLoadBalancerRequest, _>(|call, next| async move {
            let answer = next.correct(call.clone()).await;
            if reason(&answer) == Some(ErrorReason::InvalidAnnotation) {
                let mut request: EnsureLoadBalancerRequest = call.message();
                request.service.iter_mut().for_each(without_annotations);
                next.correct(call.with(&request)).await;
            }
            answer
        }),
        Defect::new("sctp-as-tcp").ensured(|service| {
            for port in &mut service.ports {
                if port.protocol == "SCTP" {
                    "TCP".clone_into(&mut port.protocol);
                }
            }
        }),
        Defect::new("any-class").ensured(|service| service.load_balancer_class = None),
        Defect::new("no-targets-is-none").request(|request: &mut EnsureLoadBalancerRequest| {
            // An empty request is a probe.
            if request.service.is_some() && request.targets.is_none() {
                request.targets = Some(NodeTargets {
                    targets: Some(Targets::Inline(InlineNodes::default())),
                });
            }
        }),
        Defect::new("all-annotations-count").ensure_answer(|service, answer| {
            let mut keys = service.annotations.keys();
            if keys.any(|key| !key.starts_with(ANNOTATION_PREFIX)) {
                moved(answer);
            }
        }),
        Defect::new("refusal-deletes").call::<EnsureLoadBalancerRequest, _>(
            |call, next| async move {
                let answer = next.correct(call.clone()).await;
                if reason(&answer) == Some(ErrorReason::InvalidAnnotation) {
                    let mut service = service_of(&call);
                    without_annotations(&mut service);
                    delete(&call, &next, service).await;
                }
                answer
            },
        ),
        Defect::new("delete-checks-annotations").refuses(|request: &DeleteLoadBalancerRequest| {
            let service = request.service.clone().unwrap_or_default();
            let has_bad = service
                .annotations
                .values()
                .any(|value| value == "nonsense");
            let text = "an annotation has a bad value";
            has_bad.then(|| refusal(ErrorReason::InvalidAnnotation, text))
        }),
    ]
}

fn without_annotations(service: &mut Service) {
    service.annotations.clear();
}

fn moved(answer: &mut LoadBalancerAnswer) {
    if answer.disposition() == D::Ready {
        for point in answer.status.iter_mut().flat_map(|one| &mut one.ingress) {
            "198.51.100.7".clone_into(&mut point.ip);
        }
    }
}

//! Mistakes in Get, List and Plan.

use std::collections::BTreeSet;

use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    CallContext, EnsureLoadBalancerRequest, ErrorReason, GetLoadBalancerRequest,
    ListLoadBalancersRequest, PlanLoadBalancerRequest, PlanLoadBalancerResponse, PlanOperation,
    PlannedChange,
};
use parking_lot::Mutex;

use super::{delete, key_of, service_of};
use crate::defects::hook::context_of;
use crate::defects::{Defect, kept, refusal};
use crate::exchange::Answer;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        cold_cache(),
        Defect::new("never-differs").get_answer(|_, answer| {
            if answer.disposition() == D::Differs {
                answer.set_disposition(D::Ready);
            }
        }),
        Defect::new("targets-not-compared").request(|request: &mut GetLoadBalancerRequest| {
            request.targets = None;
        }),
        Defect::new("no-health-check-port")
            .ensured(|service| service.health_check_node_port = 0)
            .got(|service| service.health_check_node_port = 0),
        plan_makes(),
        Defect::new("plan-is-never-empty").answer::<PlanLoadBalancerRequest>(|_, answer| {
            answer.changes.push(PlannedChange {
                summary: "the tags would be written again".to_owned(),
                ..PlannedChange::default()
            });
        }),
        plan_deletes(),
        Defect::new("plan-of-nothing").call::<PlanLoadBalancerRequest, _>(
            |call, next| async move {
                let request: PlanLoadBalancerRequest = call.message();
                // An empty request is a probe.
                if request.operation() == PlanOperation::Unspecified && request.service.is_some() {
                    return Answer::ok(&PlanLoadBalancerResponse::default());
                }
                next.serve(call).await
            },
        ),
        Defect::new("list-without-uids").listed::<ListLoadBalancersRequest>(|entries| {
            for tag in entries.iter_mut().filter_map(|one| one.service.as_mut()) {
                tag.uid.clear();
            }
        }),
        Defect::new("list-of-load-balancers-never-complete")
            .never_complete::<ListLoadBalancersRequest>(),
        list_of_all_clusters(),
    ]
}

fn cold_cache() -> Defect {
    let ensured: &Mutex<BTreeSet<String>> = kept(Mutex::default());
    Defect::new("cold-cache")
        .call::<EnsureLoadBalancerRequest, _>(move |call, next| {
            ensured.lock().insert(key_of(&call));
            next.serve(call)
        })
        .refuses(move |request: &GetLoadBalancerRequest| {
            let service = request.service.as_ref()?;
            let is_known = ensured.lock().contains(&service.uid) || service.uid.is_empty();
            let text = "the cache has no such load balancer";
            (!is_known).then(|| refusal(ErrorReason::DependencyNotReady, text))
        })
}

fn plan_makes() -> Defect {
    Defect::new("plan-makes").call::<PlanLoadBalancerRequest, _>(|call, next| async move {
        let request: PlanLoadBalancerRequest = call.message();
        let answer = next.correct(call.clone()).await;
        if request.operation() == PlanOperation::Ensure {
            let ensure = EnsureLoadBalancerRequest {
                context: request.context,
                service: request.service,
                targets: request.targets,
                identity: None,
            };
            next.ask(&call, &ensure).await;
        }
        answer
    })
}

fn plan_deletes() -> Defect {
    Defect::new("plan-deletes").call::<PlanLoadBalancerRequest, _>(|call, next| async move {
        let request: PlanLoadBalancerRequest = call.message();
        let answer = next.correct(call.clone()).await;
        if request.operation() == PlanOperation::Delete {
            delete(&call, &next, request.service.unwrap_or_default()).await;
        }
        answer
    })
}

/// A list has the load balancers of the cluster that an Ensure was last about.
fn list_of_all_clusters() -> Defect {
    let cluster: &Mutex<Option<CallContext>> = kept(Mutex::default());
    Defect::new("list-of-all-clusters")
        .call::<EnsureLoadBalancerRequest, _>(move |call, next| {
            if !service_of(&call).uid.is_empty() {
                *cluster.lock() = context_of(&call);
            }
            next.serve(call)
        })
        .in_context::<ListLoadBalancersRequest>(move |context| {
            if let Some(cluster) = &*cluster.lock() {
                context.cluster_uid.clone_from(&cluster.cluster_uid);
            }
        })
}

//! Mistakes in Get, List and Plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    CallContext, EnsureLoadBalancerRequest, ErrorReason, GetLoadBalancerRequest,
    ListLoadBalancersRequest, PlanLoadBalancerRequest, PlanLoadBalancerResponse, PlanOperation,
    PlannedChange,
};
use parking_lot::Mutex;

use super::{delete, key_of, service_of};
use crate::defects::hook::context_of;
use crate::defects::{Defect, refusal};
use crate::exchange::Answer;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        cold_cache(),
        Defect::new(
            "never-differs",
            "A load balancer that exists is READY to Get, whatever it should be.",
            &["LBS-09", "LBS-26", "LBS-27"],
        )
        .get_answer(|_, answer| {
            if answer.disposition() == D::Differs {
                answer.set_disposition(D::Ready);
            }
        }),
        Defect::new(
            "targets-not-compared",
            "Get does not compare the targets.",
            &["LBS-27"],
        )
        .request(|request: &mut GetLoadBalancerRequest| {
            request.targets = None;
        }),
        Defect::new(
            "no-health-check-port",
            "The health check goes to the node port, also where the traffic policy is Local.",
            &["LBS-09"],
        )
        .ensured(|service| service.health_check_node_port = 0)
        .got(|service| service.health_check_node_port = 0),
        plan_makes(),
        Defect::new(
            "plan-is-never-empty",
            "A plan has a change even where nothing would change.",
            &["LBS-28"],
        )
        .answer::<PlanLoadBalancerRequest>(|_, answer| {
            answer.changes.push(PlannedChange {
                summary: "the tags would be written again".to_owned(),
                ..PlannedChange::default()
            });
        }),
        plan_deletes(),
        Defect::new(
            "plan-of-nothing",
            "A plan without an operation is one without changes.",
            &["LBS-30"],
        )
        .call::<PlanLoadBalancerRequest, _>(|call, next| async move {
            let request: PlanLoadBalancerRequest = call.message();
            // An empty request is a probe.
            if request.operation() == PlanOperation::Unspecified && request.service.is_some() {
                return Answer::ok(&PlanLoadBalancerResponse::default());
            }
            next.serve(call).await
        }),
        Defect::new(
            "list-without-uids",
            "An entry of a list names its Service by namespace and name alone.",
            // Each of them counts the load balancers of a UID.
            &[
                "LBS-03", "LBS-04", "LBS-05", "LBS-18", "LBS-22", "RES-01", "RES-19", "RES-23",
                "RES-27",
            ],
        )
        .listed::<ListLoadBalancersRequest>(|entries| {
            for tag in entries.iter_mut().filter_map(|one| one.service.as_mut()) {
                tag.uid.clear();
            }
        }),
        Defect::new(
            "list-of-load-balancers-never-complete",
            "A list of load balancers ends without complete.",
            &["LBS-31", "TRN-14"],
        )
        .never_complete::<ListLoadBalancersRequest>(),
        list_of_all_clusters(),
    ]
}

fn cold_cache() -> Defect {
    let ensured: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let known = Arc::clone(&ensured);
    Defect::new(
        "cold-cache",
        "Get of a Service that this process has never ensured is an error.",
        &["LBS-01", "LBS-14", "LBS-17", "LBS-19", "LBS-24", "RES-18"],
    )
    .by_chance(&["LBS-13"])
    .call::<EnsureLoadBalancerRequest, _>(move |call, next| {
        ensured.lock().insert(key_of(&call));
        next.serve(call)
    })
    .refuses(move |request: &GetLoadBalancerRequest| {
        let service = request.service.as_ref()?;
        let is_known = known.lock().contains(&service.uid) || service.uid.is_empty();
        let text = "the cache has no such load balancer";
        (!is_known).then(|| refusal(ErrorReason::DependencyNotReady, text))
    })
}

fn plan_makes() -> Defect {
    Defect::new(
        "plan-makes",
        "A plan of an Ensure makes the load balancer.",
        &["LBS-19", "RES-09"],
    )
    .call::<PlanLoadBalancerRequest, _>(|call, next| async move {
        let request: PlanLoadBalancerRequest = call.message();
        let answer = next.correct(call.clone()).await;
        if request.operation() == PlanOperation::Ensure {
            let ensure = EnsureLoadBalancerRequest {
                context: request.context,
                service: request.service,
                targets: request.targets,
                held_addresses: None,
            };
            next.ask(&call, &ensure).await;
        }
        answer
    })
}

fn plan_deletes() -> Defect {
    Defect::new("plan-deletes", "A plan of a Delete deletes.", &["LBS-29"])
        .call::<PlanLoadBalancerRequest, _>(|call, next| async move {
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
    let cluster: Arc<Mutex<Option<CallContext>>> = Arc::default();
    let known = Arc::clone(&cluster);
    Defect::new(
        "list-of-all-clusters",
        "A list has the load balancers of each cluster of the account.",
        &["LBS-32"],
    )
    .call::<EnsureLoadBalancerRequest, _>(move |call, next| {
        if !service_of(&call).uid.is_empty() {
            *cluster.lock() = context_of(&call);
        }
        next.serve(call)
    })
    .in_context::<ListLoadBalancersRequest>(move |context| {
        if let Some(known) = &*known.lock() {
            context.cluster_uid.clone_from(&known.cluster_uid);
        }
    })
}

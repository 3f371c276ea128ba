//! Calls that change nothing: Get, Plan, List.

use outrigger_api::v1::{
    ErrorReason, ListLoadBalancersRequest, LoadBalancerDisposition as Disposition,
    PlanLoadBalancerRequest, PlanOperation, PlannedChange, Service,
};

use super::FILE;
use crate::{
    call_error::CallError,
    capability::Capability::{LoadBalancers, LoadBalancersList, LoadBalancersPlan},
    case::{Case, must, should},
    cases::lists::complete,
    needs,
    subject::{Subject, describe, port},
    verdict::{Verdict, expect, refused, skipped},
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        must("LBS-01", "Get before an Ensure is ABSENT")
            .of(LoadBalancers)
            .clause(FILE, "LOAD_BALANCER_DISPOSITION_ABSENT", "No part of it is left.")
            .check(absent),
        should("LBS-26", "Get with ports that are not those of the load balancer is DIFFERS")
            .of(LoadBalancers)
            .mutates()
            .clause(FILE, "LOAD_BALANCER_DISPOSITION_DIFFERS", "Get only: it exists and works, but is not what an Ensure with this Service and these targets would make of it;")
            .check(other_ports),
        should("LBS-27", "Get with targets that are not those of the load balancer is DIFFERS")
            .of(LoadBalancers)
            .mutates()
            .needs(needs::EXISTING_INSTANCE)
            .clause(FILE, "GetLoadBalancerRequest.targets", "The targets that it should have, to compare.")
            .check(other_targets),
        should("LBS-09", "externalTrafficPolicy Local uses healthCheckNodePort")
            .of(LoadBalancers)
            .mutates()
            .clause("common.proto", "Service.health_check_node_port", "spec.healthCheckNodePort; 0 when there is none.")
            .check(local_traffic),
        must("LBS-19", "Plan changes nothing, and names a creation before it is made")
            .of(LoadBalancersPlan)
            .clause(FILE, "PlanLoadBalancer", "Changes that Ensure or Delete would make. Changes nothing.")
            .check(plan_of_new),
        must("LBS-28", "Plan of an Ensure that would change nothing is empty")
            .of(LoadBalancersPlan)
            .mutates()
            .clause(FILE, "PlanLoadBalancerResponse.changes", "Empty: nothing would change.")
            .check(plan_of_same),
        must("LBS-29", "Plan of a Delete names it, and deletes nothing")
            .of(LoadBalancersPlan)
            .mutates()
            .clause(FILE, "PlanLoadBalancer", "Changes that Ensure or Delete would make. Changes nothing.")
            .check(plan_of_delete),
        must("LBS-30", "Plan without an operation is INVALID_REQUEST")
            .of(LoadBalancersPlan)
            .clause(FILE, "PLAN_OPERATION_UNSPECIFIED", "Refused as INVALID_REQUEST.")
            .check(plan_of_nothing),
        must("LBS-18", "a list has each load balancer of this cluster with its Service")
            .of(LoadBalancersList)
            .mutates()
            .clause(FILE, "OwnedLoadBalancer.service", "The uid is REQUIRED in it, namespace and name MAY be empty where the cloud has no room for them.")
            .check(listed),
        must("LBS-31", "only the last message of a list has complete")
            .of(LoadBalancersList)
            .clause(FILE, "ListLoadBalancersResponse.complete", "Set on the last message only.")
            .check(complete::<ListLoadBalancersRequest>),
        must("LBS-32", "a list for another cluster has nothing of this one")
            .of(LoadBalancersList)
            .mutates()
            .clause(FILE, "ListLoadBalancersResponse.items", "Load balancers of this cluster only.")
            .check(list_of_other_cluster),
    ]
}

async fn absent(subject: &Subject) -> Verdict {
    let answer = subject.get(&subject.service(), None).await?;
    expect(
        answer.disposition() == Disposition::Absent,
        "GetLoadBalancer of a Service that was never ensured is ABSENT",
        describe(&answer),
    )
}

async fn other_ports(subject: &Subject) -> Verdict {
    let (mut service, _) = subject.balanced().await?;
    service.ports = vec![port("TCP", 8443, 30443)];
    subject.get_is(&service, Disposition::Differs).await
}

async fn other_targets(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    let none = subject.targets(&[]).await?;
    let answer = subject.get(&service, none).await?;
    expect(
        answer.disposition() == Disposition::Differs,
        "DIFFERS, since the load balancer has targets",
        describe(&answer),
    )
}

async fn local_traffic(subject: &Subject) -> Verdict {
    let mut service = subject.service();
    "Local".clone_into(&mut service.external_traffic_policy);
    service.health_check_node_port = 32_100;
    let nodes = subject.target_nodes();
    let targets = subject.targets(&nodes).await?;
    let first = subject.ensure_once(&service, targets).await;
    if first.is_err_and(|error| error.is(ErrorReason::UnsupportedFeature)) {
        let reason = "the cloud has no externalTrafficPolicy Local: UNSUPPORTED_FEATURE";
        return Err(skipped(reason));
    }
    subject.ensure(&service, &nodes).await?;
    service.health_check_node_port = 32_200;
    subject.get_is(&service, Disposition::Differs).await
}

async fn plan(
    subject: &Subject,
    service: &Service,
    operation: PlanOperation,
) -> Result<Vec<PlannedChange>, CallError> {
    let targets = match operation {
        PlanOperation::Ensure => subject
            .targets(&subject.target_nodes())
            .await
            .ok()
            .flatten(),
        _ => None,
    };
    let request = PlanLoadBalancerRequest {
        operation: operation.into(),
        service: Some(service.clone()),
        targets,
        ..PlanLoadBalancerRequest::default()
    };
    Ok(subject.client.call(request).await?.changes)
}

async fn plan_of_new(subject: &Subject) -> Verdict {
    let service = subject.service();
    let changes = plan(subject, &service, PlanOperation::Ensure).await?;
    expect(
        !changes.is_empty(),
        "at least one change for a Service without a load balancer",
        "none",
    )?;
    subject.get_is(&service, Disposition::Absent).await
}

async fn plan_of_same(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    let changes = plan(subject, &service, PlanOperation::Ensure).await?;
    expect(changes.is_empty(), "no changes", format!("{changes:?}"))
}

async fn plan_of_delete(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    let changes = plan(subject, &service, PlanOperation::Delete).await?;
    expect(!changes.is_empty(), "at least one change", "none")?;
    subject.get_is(&service, Disposition::Ready).await
}

async fn plan_of_nothing(subject: &Subject) -> Verdict {
    let service = subject.service();
    let planned = plan(subject, &service, PlanOperation::Unspecified).await;
    let reasons = [ErrorReason::InvalidRequest];
    refused(planned, &reasons, "INVALID_REQUEST", |changes| {
        format!("{changes:?}")
    })
}

async fn listed(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    let listed = subject.listed_services(None).await?;
    let uids: Vec<_> = listed.iter().map(|tag| &*tag.uid).collect();
    expect(
        uids.contains(&&*service.uid),
        format!("an entry whose service has the uid {}", service.uid),
        format!("entries with the uids {uids:?}"),
    )
}

async fn list_of_other_cluster(subject: &Subject) -> Verdict {
    subject.needs_cluster_uid()?;
    let (service, _) = subject.balanced().await?;
    let context = subject.context_of_another_cluster();
    let listed = subject.listed_services(context).await?;
    let foreign = listed.iter().filter(|tag| tag.uid == service.uid).count();
    expect(
        foreign == 0,
        "a list with the UID of another cluster leaves this one's out",
        format!("{foreign} of this one's"),
    )
}

//! Calls that change nothing: Get, Plan, List.

use outrigger_api::v1::{
    ErrorReason, ListLoadBalancersRequest, LoadBalancerDisposition as Disposition, PlanOperation,
};

use crate::{
    case::{Check, check},
    cases::complete,
    subject::{Subject, expect_one_of, port},
    verdict::{Verdict, expect, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-01", absent),
        check("LBS-26", differs),
        check("LBS-09", local_traffic),
        check("LBS-19", plan_of_new),
        check("LBS-28", plan_of_balanced),
        check("LBS-18", listed),
        check("LBS-31", complete::<ListLoadBalancersRequest>),
    ]
}

async fn absent(subject: &Subject) -> Verdict {
    let answer = subject.get(&subject.service(), None).await?;
    let expected = "GetLoadBalancer of a Service that was never ensured is ABSENT";
    expect_one_of(&[Disposition::Absent], &answer, expected)
}

async fn differs(subject: &Subject) -> Verdict {
    let (mut service, _) = subject.balanced().await?;
    let none = subject.targets(&[]).await?;
    let answer = subject.get(&service, none).await?;
    let expected = "DIFFERS, since the load balancer has targets";
    expect_one_of(&[Disposition::Differs], &answer, expected)?;
    service.ports = vec![port("TCP", 8443, 30443)];
    subject.get_is(&service, Disposition::Differs).await
}

async fn local_traffic(subject: &Subject) -> Verdict {
    let mut service = subject.service();
    "Local".clone_into(&mut service.external_traffic_policy);
    service.health_check_node_port = 32_100;
    subject.reset_options(&mut service);
    let nodes = subject.target_nodes();
    let targets = subject.targets(&nodes).await?;
    let first = subject.ensure_once(&service, targets).await;
    if first.is_err_and(|error| error.is(ErrorReason::UnsupportedFeature)) {
        let reason = "the cloud has no externalTrafficPolicy Local: UNSUPPORTED_FEATURE";
        return Err(skipped(reason));
    }
    subject.ensure(&service, &nodes).await?;
    service.health_check_node_port = 32_200;
    subject.reset_options(&mut service);
    subject.get_is(&service, Disposition::Differs).await
}

async fn plan_of_new(subject: &Subject) -> Verdict {
    let service = subject.service();
    let changes = subject.plan(&service, PlanOperation::Ensure).await?;
    expect(
        !changes.is_empty(),
        "at least one change for a Service without a load balancer",
        "none",
    )?;
    subject.get_is(&service, Disposition::Absent).await
}

async fn plan_of_balanced(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    let changes = subject.plan(&service, PlanOperation::Ensure).await?;
    let expected = "no changes by an Ensure";
    expect(changes.is_empty(), expected, format!("{changes:?}"))?;
    let changes = subject.plan(&service, PlanOperation::Delete).await?;
    let expected = "at least one change by a Delete";
    expect(!changes.is_empty(), expected, "none")?;
    subject.get_is(&service, Disposition::Ready).await
}

async fn listed(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    let listed = subject.listed_services().await?;
    let uids: Vec<_> = listed.iter().map(|tag| &*tag.uid).collect();
    expect(
        uids.contains(&&*service.uid),
        format!("an entry whose service has the uid {}", service.uid),
        format!("entries with the uids {uids:?}"),
    )
}

//! The life of one load balancer: made, made again, changed, deleted.

use futures::future::join;
use outrigger_api::v1::{
    DeleteLoadBalancerRequest, GetLoadBalancerRequest, LoadBalancerAnswer,
    LoadBalancerDisposition as Disposition, Service,
};

use super::FILE;
use crate::{
    capability::Capability::LoadBalancers,
    case::{Builder, Case, must, should},
    needs,
    subject::{Subject, answered_or_lost, describe, port},
    verdict::{Verdict, expect},
};

pub(super) fn cases() -> Vec<Case> {
    let case = |builder: Builder| builder.of(LoadBalancers).mutates();
    vec![
        case(must("LBS-02", "Ensure becomes READY with addresses, and Get agrees"))
            .clause(FILE, "LoadBalancerAnswer.status", "REQUIRED with READY in an answer to Ensure;")
            .check(becomes_ready),
        case(must("LBS-03", "three equal Ensures are one load balancer with one status"))
            .clause("common.proto", "", "carry the desired state, never a delta, and are idempotent by key: Service UID;")
            .check(idempotent),
        case(must("LBS-04", "an Ensure whose reply was lost, sent again, is one load balancer"))
            .clause(FILE, "LoadBalancersService", "written in the same cloud call as the creation where the cloud allows it: a reply may be lost.")
            .check(lost_reply),
        case(must("LBS-05", "two Ensures for one Service at once are one load balancer"))
            .clause(FILE, "LoadBalancersService", "Within a process it serialises by key;")
            .check(two_at_once),
        case(must("LBS-06", "ports are added, changed and removed, and the addresses stay"))
            .clause(FILE, "EnsureLoadBalancer", "A change of ports or targets MUST NOT change the addresses: clients know them.")
            .check(ports),
        case(must("LBS-21", "a port gets another protocol"))
            .needs(needs::SECOND_PROTOCOL)
            .clause(FILE, "EnsureLoadBalancer", "Makes the load balancer, or changes it, to what the Service and its targets say.")
            .check(protocol),
        case(should("LBS-10", "two IP families lead to an address of each, in the wanted order"))
            .needs(needs::BOTH_IP_FAMILIES)
            .clause("common.proto", "Service.ip_families", "spec.ipFamilies in their order: IPv4, IPv6.")
            .check(dual_stack),
        case(must("LBS-12", "Delete becomes ABSENT, then Get is; a second Delete is ABSENT"))
            .clause(FILE, "DeleteLoadBalancer", "Removes the load balancer and every part of it. The answer is ABSENT if there is none.")
            .check(deleted),
        case(must("LBS-13", "a Delete after an Ensure that was cut off leaves nothing"))
            .clause(FILE, "LoadBalancersService", "Whatever is half made is completed by the next Ensure, or removed by the next Delete.")
            .check(half_made),
        case(must("LBS-14", "a Service made again under its name gets a load balancer of its own"))
            .clause("common.proto", "Service.uid", "A Service that was deleted and made again has another.")
            .check(made_again),
        case(must("LBS-22", "an Ensure after an Ensure that was cut off becomes READY"))
            .clause(FILE, "LoadBalancersService", "Whatever is half made is completed by the next Ensure, or removed by the next Delete.")
            .check(completed),
        case(must("LBS-23", "a Service that has another type now can be cleaned up"))
            .clause("common.proto", "Service.type", "spec.type; LoadBalancer except in a cleanup after a change of type.")
            .check(other_type),
        case(must("LBS-24", "load balancers of two Services do not share their life"))
            .clause(FILE, "LoadBalancersService", "Key: Service.uid.")
            .check(two_services),
        case(must("LBS-25", "calls about one Service UID of two clusters are about two load balancers"))
            .clause(FILE, "LoadBalancersService", "(tags with cluster UID and Service UID, or a name made of them)")
            .check(other_cluster),
    ]
}

async fn becomes_ready(subject: &Subject) -> Verdict {
    let (service, ready) = subject.balanced().await?;
    let points = ready
        .status
        .as_ref()
        .map_or(0, |status| status.ingress.len());
    expect(points > 0, "READY with an address", describe(&ready))?;
    let answer = subject.get(&service, None).await?;
    let same = answer.status.is_none() || answer.status == ready.status;
    expect(
        answer.disposition() == Disposition::Ready && same,
        format!("GetLoadBalancer is {}", describe(&ready)),
        describe(&answer),
    )
}

async fn idempotent(subject: &Subject) -> Verdict {
    let service = subject.service();
    let nodes = subject.target_nodes();
    let first = subject.ensure(&service, &nodes).await?;
    for _ in 0..2 {
        let again = subject.ensure(&service, &nodes).await?;
        expect(
            again.status == first.status && again.identity == first.identity,
            format!("{}, identity {:?}", describe(&first), first.identity),
            format!("{}, identity {:?}", describe(&again), again.identity),
        )?;
    }
    subject.is_listed_once(&service).await
}

async fn lost_reply(subject: &Subject) -> Verdict {
    let service = subject.service();
    let nodes = subject.target_nodes();
    let ensure = async |caller: &Subject| {
        let targets = caller.targets(&nodes).await?;
        // Whatever it is: the next Ensure is what counts.
        let _ = caller.ensure_once(&service, targets).await;
        Ok(())
    };
    subject.lose_reply(ensure).await?;
    subject.ensure(&service, &nodes).await?;
    subject.is_listed_once(&service).await
}

async fn two_at_once(subject: &Subject) -> Verdict {
    let other = subject.connect().await?;
    let service = subject.service();
    let nodes = subject.target_nodes();
    let targets = subject.targets(&nodes).await?;
    let both = join(
        subject.ensure_once(&service, targets.clone()),
        other.ensure_once(&service, targets),
    );
    let (first, second) = Box::pin(both).await;
    answered_or_lost(first)?;
    answered_or_lost(second)?;
    subject.ensure(&service, &nodes).await?;
    subject.is_listed_once(&service).await
}

/// IP address and name of each point of the status; states of ports change with the ports.
fn addresses(answer: &LoadBalancerAnswer) -> Vec<(&str, &str)> {
    let points = answer.status.iter().flat_map(|status| &status.ingress);
    points.map(|point| (&*point.ip, &*point.hostname)).collect()
}

async fn ports(subject: &Subject) -> Verdict {
    let nodes = subject.target_nodes();
    let mut service = subject.service();
    let first = subject.ensure(&service, &nodes).await?;
    for ports in [
        vec![port("TCP", 80, 30080), port("TCP", 443, 30443)],
        vec![port("TCP", 80, 30081), port("TCP", 443, 30443)],
        vec![port("TCP", 443, 30443)],
    ] {
        service.ports = ports;
        let ready = subject.ensure(&service, &nodes).await?;
        expect(
            addresses(&ready) == addresses(&first),
            format!("the addresses stay: {}", describe(&first)),
            describe(&ready),
        )?;
        subject.get_is(&service, Disposition::Ready).await?;
    }
    Ok(())
}

async fn protocol(subject: &Subject) -> Verdict {
    let nodes = subject.target_nodes();
    let mut service = subject.service();
    subject.ensure(&service, &nodes).await?;
    let second = subject.inputs().services.second_protocol.clone();
    service.ports = vec![port(&second.unwrap_or_default(), 80, 30080)];
    subject.ensure(&service, &nodes).await?;
    subject.get_is(&service, Disposition::Ready).await
}

async fn dual_stack(subject: &Subject) -> Verdict {
    let mut service = subject.service();
    service
        .ip_families
        .clone_from(&subject.inputs().services.ip_families);
    "RequireDualStack".clone_into(&mut service.ip_family_policy);
    let ready = subject.ensure_all(&service).await?;
    let points = ready.status.clone().unwrap_or_default().ingress;
    if points.iter().any(|point| !point.hostname.is_empty()) {
        // A name stands for addresses of both families.
        return Ok(());
    }
    let family = |ip: &str| if ip.contains(':') { "IPv6" } else { "IPv4" };
    let actual: Vec<_> = points.iter().map(|point| family(&point.ip)).collect();
    expect(
        actual == service.ip_families,
        format!("addresses of {:?}", service.ip_families),
        describe(&ready),
    )
}

/// Deletes, and holds the end against ABSENT.
async fn delete(subject: &Subject, service: &Service) -> Verdict {
    let ended = subject.delete(service).await?;
    expect(
        ended.disposition() == Disposition::Absent,
        "DeleteLoadBalancer ends with ABSENT",
        describe(&ended),
    )
}

async fn deleted(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    delete(subject, &service).await?;
    subject.get_is(&service, Disposition::Absent).await?;
    delete(subject, &service).await
}

/// Moments at which an Ensure is cut off, in milliseconds.
const MOMENTS: [u64; 6] = [0, 1, 3, 10, 30, 100];

async fn half_made(subject: &Subject) -> Verdict {
    for moment in MOMENTS {
        let service = subject.service();
        let caller = subject.connect().await?;
        caller.cut_off(&service, moment).await?;
        delete(subject, &service).await?;
        subject.get_is(&service, Disposition::Absent).await?;
    }
    Ok(())
}

async fn completed(subject: &Subject) -> Verdict {
    for moment in MOMENTS {
        let service = subject.service();
        let caller = subject.connect().await?;
        caller.cut_off(&service, moment).await?;
        subject.ensure_all(&service).await?;
        subject.is_listed_once(&service).await?;
        delete(subject, &service).await?;
    }
    Ok(())
}

async fn made_again(subject: &Subject) -> Verdict {
    let nodes = subject.target_nodes();
    let before = subject.service();
    let mut after = subject.service();
    after.name.clone_from(&before.name);
    subject.leftovers().expect(after.clone());
    subject.ensure(&before, &nodes).await?;
    subject.get_is(&after, Disposition::Absent).await?;
    subject.ensure(&after, &nodes).await?;
    delete(subject, &before).await?;
    subject.get_is(&after, Disposition::Ready).await?;
    delete(subject, &after).await?;
    subject.get_is(&after, Disposition::Absent).await
}

async fn other_type(subject: &Subject) -> Verdict {
    let (mut service, _) = subject.balanced().await?;
    "ClusterIP".clone_into(&mut service.r#type);
    delete(subject, &service).await?;
    "LoadBalancer".clone_into(&mut service.r#type);
    subject.get_is(&service, Disposition::Absent).await
}

async fn two_services(subject: &Subject) -> Verdict {
    let (one, other) = (subject.service(), subject.service());
    let nodes = subject.target_nodes();
    subject.ensure(&one, &nodes).await?;
    subject.get_is(&other, Disposition::Absent).await?;
    subject.ensure(&other, &nodes).await?;
    delete(subject, &one).await?;
    subject.get_is(&other, Disposition::Ready).await
}

async fn other_cluster(subject: &Subject) -> Verdict {
    subject.needs_cluster_uid()?;
    let (service, _) = subject.balanced().await?;
    let context = subject.context_of_another_cluster();
    let request = DeleteLoadBalancerRequest {
        context: context.clone(),
        service: Some(service.clone()),
    };
    // ABSENT or NOT_MANAGED, or an error: only what becomes of the load balancer counts.
    let _ = subject.client.call(request).await;
    subject.get_is(&service, Disposition::Ready).await?;
    let request = GetLoadBalancerRequest {
        context,
        service: Some(service),
        targets: None,
    };
    let answer = subject.client.call(request).await?;
    let answer = answer.answer.unwrap_or_default();
    expect(
        [Disposition::Absent, Disposition::NotManaged].contains(&answer.disposition()),
        "GetLoadBalancer with the UID of another cluster is ABSENT",
        describe(&answer),
    )
}

//! The life of one load balancer: made, made again, changed, deleted.

use futures::future::join;
use outrigger_api::v1::{
    GetStatusRequest, LoadBalancerAnswer, LoadBalancerDisposition as Disposition, Service,
};

use crate::{
    case::{Check, check},
    subject::{Subject, answered_or_lost, describe, expect_one_of, port},
    verdict::{Verdict, expect},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-02", becomes_ready),
        check("LBS-03", idempotent),
        check("LBS-04", lost_reply),
        check("LBS-05", two_at_once),
        check("LBS-06", ports),
        check("LBS-21", protocol),
        check("LBS-10", dual_stack),
        check("LBS-12", deleted),
        check("LBS-13", half_made),
        check("LBS-14", made_again),
        check("LBS-23", other_type),
        check("LBS-24", two_services),
        check("LBS-25", other_cluster),
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
pub(super) fn addresses(answer: &LoadBalancerAnswer) -> Vec<(&str, &str)> {
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
    let expected = "DeleteLoadBalancer ends with ABSENT";
    expect_one_of(&[Disposition::Absent], &ended, expected)
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
        for completes in [false, true] {
            let service = subject.service();
            let caller = subject.connect().await?;
            caller.cut_off(&service, moment).await?;
            // Answered after the provider has read what was sent before: calls on another connection would overtake it.
            caller.client.call(GetStatusRequest {}).await?;
            if completes {
                subject.ensure_all(&service).await?;
                subject.is_listed_once(&service).await?;
            }
            delete(subject, &service).await?;
            subject.get_is(&service, Disposition::Absent).await?;
        }
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
    let other = subject.of_another_cluster();
    // ABSENT or NOT_MANAGED, or an error: only what becomes of the load balancer counts.
    let _ = other.delete_once(&service).await;
    subject.get_is(&service, Disposition::Ready).await?;
    if subject.load_balancers().list {
        let listed = other.listed_services().await?;
        let foreign = listed.iter().filter(|tag| tag.uid == service.uid).count();
        let expected = "a list with the UID of another cluster leaves this one's out";
        expect(foreign == 0, expected, format!("{foreign} of this one's"))?;
    }
    let answer = other.get(&service, None).await?;
    let expected = "GetLoadBalancer with the UID of another cluster is ABSENT";
    expect_one_of(
        &[Disposition::Absent, Disposition::NotManaged],
        &answer,
        expected,
    )
}

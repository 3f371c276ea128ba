//! The targets of load balancers: `UpdateLoadBalancerNodes`, and Ensure without any.

use outrigger_api::v1::{
    LoadBalancerAnswer, LoadBalancerDisposition as Disposition, Node, Service,
    UpdateLoadBalancerNodesRequest, load_balancer_result::Outcome,
};

use super::{
    NOT_SERVED,
    refusals::{with_bad_annotations, with_bad_protocol},
};
use crate::{
    call_error::CallError,
    case::{Check, check},
    subject::{Subject, describe, expect_one_of},
    verdict::{Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-33", no_targets),
        check("LBS-15", updates),
        check("LBS-16", many),
        check("LBS-46", refused_among_others),
        check("LBS-17", makes_none),
        check("LBS-34", nothing_else),
    ]
}

/// The answer about each Service, or its error, in the order of the request.
async fn update(
    subject: &Subject,
    services: &[Service],
    nodes: &[Node],
) -> Verdict<Vec<Result<LoadBalancerAnswer, CallError>>> {
    let request = UpdateLoadBalancerNodesRequest {
        items: services.to_vec(),
        targets: subject.targets(nodes).await?,
        ..UpdateLoadBalancerNodesRequest::default()
    };
    let answers = subject.client.batch(request).await??.into_iter();
    let answer = |one| match one {
        Ok(Outcome::Found(answer)) => Ok(Ok(answer)),
        Ok(other) => Err(failed("found, or an error", format!("{other:?}"))),
        Err(error) => Ok(Err(error)),
    };
    answers.map(answer).collect()
}

/// Updates one Service until READY, as the controller does.
async fn update_one(subject: &Subject, service: &Service, nodes: &[Node]) -> Verdict {
    let within = crate::inputs::limit(subject.inputs().limits.ready);
    let look = async || {
        let services = std::slice::from_ref(service);
        let answer = update(subject, services, nodes).await?.remove(0)?;
        let is_ready = answer.disposition() == Disposition::Ready;
        expect(is_ready, "READY", describe(&answer))
    };
    subject
        .wait_for("UpdateLoadBalancerNodes is READY", within, look)
        .await
}

/// Holds Get with these targets against READY.
async fn has(subject: &Subject, service: &Service, nodes: &[Node]) -> Verdict {
    let targets = subject.targets(nodes).await?;
    let answer = subject.get(service, targets).await?;
    let names: Vec<_> = nodes.iter().map(|node| &node.name).collect();
    let expected = format!("GetLoadBalancer with the targets {names:?} is READY");
    expect_one_of(&[Disposition::Ready], &answer, expected)
}

async fn no_targets(subject: &Subject) -> Verdict {
    let service = subject.service();
    subject.ensure(&service, &[]).await?;
    has(subject, &service, &[]).await
}

async fn updates(subject: &Subject) -> Verdict {
    let service = subject.service();
    let all = subject.target_nodes();
    let (first, rest) = all.split_at(1);
    subject.ensure(&service, first).await?;
    for nodes in [&all[..], rest, &[], first] {
        update_one(subject, &service, nodes).await?;
        has(subject, &service, nodes).await?;
    }
    Ok(())
}

/// Services for one update: as many as it may name, up to eight.
fn services(subject: &Subject) -> Vec<Service> {
    let most = subject.load_balancers().max_services_per_update.clamp(1, 8);
    (0..most).map(|_| subject.service()).collect()
}

async fn many(subject: &Subject) -> Verdict {
    let services = services(subject);
    let nodes = subject.target_nodes();
    // The last one has no load balancer, which does not concern the others.
    let (without, with) = services.split_last().unwrap_or((&services[0], &[]));
    for service in with {
        subject.ensure(service, &nodes).await?;
    }
    let outcomes = update(subject, &services, &[]).await?;
    let though = format!("though {} has no load balancer", without.name);
    let mut of_others = with.iter().zip(&outcomes);
    of_others.try_for_each(|(service, outcome)| taken(service, outcome, &though))
}

/// Holds the outcome of an update against one whose targets were taken.
fn taken(
    service: &Service,
    outcome: &Result<LoadBalancerAnswer, CallError>,
    though: &str,
) -> Verdict {
    let taken = [Disposition::Ready, Disposition::InProgress];
    let (taken, actual) = match outcome {
        Ok(answer) => (taken.contains(&answer.disposition()), describe(answer)),
        Err(error) => (crate::subject::is_passing(error), error.to_string()),
    };
    expect(
        taken,
        format!("{} is READY or IN_PROGRESS, {though}", service.name),
        actual,
    )
}

async fn refused_among_others(subject: &Subject) -> Verdict {
    let (good, edited) = (subject.service(), subject.service());
    let nodes = subject.target_nodes();
    subject.ensure(&good, &nodes).await?;
    subject.ensure(&edited, &nodes).await?;
    let other_class = Service {
        load_balancer_class: Some(NOT_SERVED.to_owned()),
        ..edited.clone()
    };
    let mut refused = vec![("has a class that is not served", other_class)];
    for (why, bad) in [
        (
            "has a refused annotation",
            with_bad_annotations(subject, &edited),
        ),
        (
            "has a refused protocol",
            with_bad_protocol(subject, &edited),
        ),
    ] {
        refused.extend(bad.map(|(service, _)| (why, service)));
    }
    let room = subject.load_balancers().max_services_per_update > 1;
    for (why, bad) in refused {
        let though = format!("though {} {why}", bad.name);
        // First, for a provider that ends at the first error.
        let mut services = vec![bad];
        services.extend(room.then(|| good.clone()));
        let outcomes = update(subject, &services, &[]).await?;
        if let Some(outcome) = outcomes.get(1) {
            taken(&good, outcome, &though)?;
        }
    }
    Ok(())
}

async fn makes_none(subject: &Subject) -> Verdict {
    let service = subject.service();
    let services = std::slice::from_ref(&service);
    let outcome = update(subject, services, &subject.target_nodes()).await?;
    if let Ok(answer) = &outcome[0] {
        expect_one_of(&[Disposition::Absent], answer, "ABSENT, or an error")?;
    }
    subject.get_is(&service, Disposition::Absent).await
}

async fn nothing_else(subject: &Subject) -> Verdict {
    let (service, before) = subject.balanced().await?;
    update_one(subject, &service, &[]).await?;
    let after = subject.get(&service, None).await?;
    expect(
        after.disposition() == Disposition::Ready
            && (after.status.is_none() || after.status == before.status),
        describe(&before),
        describe(&after),
    )
}

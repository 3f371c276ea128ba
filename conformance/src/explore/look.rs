//! Looks at the provider and its cloud: held against the desired state, and as lines that two stages can be compared by.

use outrigger_api::v1::{
    ListLoadBalancersRequest, LoadBalancerAnswer, LoadBalancerDisposition as Disposition,
    NodeTargets, OwnedLoadBalancer, Service,
};

use super::{
    rule::{Broken, Rule},
    stage::{Aim, Stage},
    state::{self, Identities},
};
use crate::{
    inputs::limit,
    subject::{Subject, Unended, describe, patiently, repeated},
};

/// `GetLoadBalancer` until it has this disposition, as long as it is in progress.
async fn get(
    subject: &Subject,
    service: &Service,
    targets: Option<NodeTargets>,
    end: Disposition,
) -> Result<LoadBalancerAnswer, Unended> {
    let within = limit(subject.inputs().limits.ready);
    let call = async || subject.get(service, targets.clone()).await;
    repeated(within, &[end], call).await
}

/// All load balancers of the cluster, by a complete list; none where they are not listed.
pub(super) async fn balancers(subject: &Subject) -> Result<Vec<OwnedLoadBalancer>, Broken> {
    if !subject.load_balancers().list {
        return Ok(Vec::new());
    }
    let request = ListLoadBalancersRequest::default;
    let within = limit(subject.inputs().limits.ready);
    let listed = patiently(within, async || subject.client.list(request()).await).await;
    let listed = listed.map_err(|error| Rule::LIST.broken("a list is answered", error))?;
    if listed.is_complete() {
        return Ok(listed.entries);
    }
    let actual = format!("complete by message: {:?}", listed.completes);
    Err(Rule::LIST.broken("a list ends with a message that has complete", actual))
}

/// Holds all answers about settled objects against the desired state.
pub(super) async fn after_turn(stage: &Stage) -> Result<(), Broken> {
    let subject = &stage.subject;
    for (name, life) in stage.lives.iter().filter(|(_, life)| life.settled) {
        if life.aim != Aim::Balanced {
            is_absent(subject, *name, &life.service).await?;
            continue;
        }
        let service = &life.service;
        let targets = Rule::GET.of(subject.targets(&stage.nodes()).await)?;
        let answered = get(subject, service, targets.clone(), Disposition::Ready).await;
        let is_same = |answer: &LoadBalancerAnswer| {
            let status = answer.status.clone().unwrap_or_default();
            status.ingress.is_empty() || answer.status == life.ready.status
        };
        let actual = match answered {
            Ok(answer) if is_same(&answer) => None,
            Ok(answer) => Some(describe(&answer)),
            Err(other) => Some(other.to_string()),
        };
        if let Some(actual) = actual {
            let expected = format!("{name}: GetLoadBalancer is {}", describe(&life.ready));
            return Err(Rule::GET.broken(expected, actual));
        }
    }
    for (name, service) in &stage.gone {
        is_absent(subject, *name, service).await?;
    }
    is_listed(stage).await
}

async fn is_absent(subject: &Subject, name: char, service: &Service) -> Result<(), Broken> {
    let answered = get(subject, service, None, Disposition::Absent).await;
    answered.map(drop).map_err(|other| {
        let expected = format!("{name}: GetLoadBalancer of what was deleted is ABSENT");
        Rule::ABSENT.broken(expected, other)
    })
}

/// The list has the settled load balancers once each, and no other but those from before.
async fn is_listed(stage: &Stage) -> Result<(), Broken> {
    if !stage.subject.load_balancers().list {
        return Ok(());
    }
    let listed = balancers(&stage.subject).await?.into_iter();
    let mut uids: Vec<_> = listed
        .filter_map(|one| one.service)
        .map(|tag| tag.uid)
        .collect();
    let unsettled = stage.unsettled();
    uids.retain(|uid| !unsettled.contains(&**uid) && !stage.others.contains(uid));
    uids.sort_unstable();
    let lives = stage.lives.values();
    let lives = lives.filter(|life| life.aim == Aim::Balanced && life.settled);
    let mut expected: Vec<_> = lives.map(|life| life.service.uid.clone()).collect();
    expected.sort_unstable();
    if uids == expected {
        return Ok(());
    }
    let identities = stage.identities();
    let named = |uids: &[String]| identities.without(&format!("{uids:?}"));
    let expected = format!("ListLoadBalancers has the Services {}", named(&expected));
    Err(Rule::LIST.broken(expected, named(&uids)))
}

/// All that the provider and its cloud show of a stage, without identities, sorted.
pub(super) async fn shown(stage: &Stage) -> Result<Vec<String>, Broken> {
    let subject = &stage.subject;
    let mut identities = stage.identities();
    let listed = balancers(subject).await?;
    let mut lines = Vec::new();
    for (name, life) in &stage.lives {
        if life.aim != Aim::Balanced {
            continue;
        }
        let service = &life.service;
        let answer = get(subject, service, None, Disposition::Ready).await;
        let expected = || format!("{name}: GetLoadBalancer is READY");
        let answer = answer.map_err(|other| Rule::GET.broken(expected(), other))?;
        let LoadBalancerAnswer {
            reason,
            message,
            status,
            ..
        } = answer;
        lines.push(format!(
            "{name}: Get is READY {reason:?} {message:?} {status:?}"
        ));
        let is_of = |one: &&OwnedLoadBalancer| {
            let tag = one.service.as_ref();
            tag.is_some_and(|tag| tag.uid == service.uid)
        };
        for one in listed.iter().filter(is_of) {
            // It may show more addresses than the Service has.
            identities.points(one.status.as_ref(), *name);
        }
    }
    let mut lines: Vec<_> = lines.iter().map(|line| identities.without(line)).collect();
    lines.extend(cloud_state(subject, &identities).await?);
    lines.sort_unstable();
    Ok(lines)
}

/// The resources of the cloud; none without `commands.cloudState`.
pub(super) async fn cloud_state(
    subject: &Subject,
    identities: &Identities,
) -> Result<Vec<String>, Broken> {
    let command = &subject.inputs().commands.cloud_state;
    if command.is_empty() {
        return Ok(Vec::new());
    }
    let printed = Rule::ENDED.of(subject.command(command).await)?;
    let resources = state::resources(&identities.without(&printed)).into_iter();
    Ok(resources.map(|line| format!("cloud: {line}")).collect())
}

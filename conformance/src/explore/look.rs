//! Looks at the provider and its cloud: held against the desired state, and as lines that two stages can be compared by.

use outrigger_api::v1::{
    BatchGetInstancesRequest, ChangeAction, InstanceView, ListLoadBalancersRequest,
    LoadBalancerAnswer, LoadBalancerDisposition as Disposition, OwnedLoadBalancer, PlanOperation,
    PlannedChange, Service,
};

use super::{
    play::{Broken, Life, Stage, ingress},
    rule::Rule,
    state::{self, Identities},
    trace::{Name, Port},
};
use crate::{
    capability::Capability,
    cases::volumes,
    client::Answered,
    subject::{Subject, describe, destination, leads_to, name_of, routes_to},
    verdict::{Verdict, expect},
};

/// Stands in each word for an identity of a route.
pub(super) const OF_ROUTE: &str = " of route ";

fn stopped<T>(rule: Rule, verdict: Verdict<T>) -> Result<T, Broken> {
    verdict.map_err(|stop| Broken::stopped(rule, &stop))
}

/// Holds all answers about settled objects against the desired state.
pub(super) async fn after_turn(stage: &Stage<'_>) -> Result<(), Broken> {
    let subject = &stage.subject;
    let targets = stopped(Rule::Get, subject.targets(&stage.nodes()).await)?;
    for (name, life) in stage.lives.iter().filter(|(_, life)| life.settled) {
        let service = &life.service;
        if !life.balanced {
            is_absent(subject, *name, service).await?;
            continue;
        }
        let answered = subject.get(service, targets.clone()).await;
        let says_same = |answer: &LoadBalancerAnswer| {
            answer.disposition() == Disposition::Ready
                && (ingress(answer).is_empty() || answer.status == life.ready.status)
        };
        let actual = match &answered {
            Ok(answer) if says_same(answer) => None,
            Ok(answer) => Some(describe(answer)),
            Err(error) => Some(error.to_string()),
        };
        if let Some(actual) = actual {
            let expected = format!("{name}: GetLoadBalancer is {}", describe(&life.ready));
            return Err(Broken::new(Rule::Get, expected, actual));
        }
        if subject.declares(Capability::LoadBalancersPlan) {
            let planned = subject
                .plan(service, PlanOperation::Ensure, targets.clone())
                .await;
            let planned = planned.map(|changes| changes.iter().map(change).collect::<Vec<_>>());
            if !matches!(&planned, Ok(changes) if changes.is_empty()) {
                let expected = format!("{name}: PlanLoadBalancer of the same Ensure is empty");
                let actual = planned.map_or_else(|error| error.to_string(), |all| all.join("; "));
                return Err(Broken::new(Rule::Plan, expected, actual));
            }
        }
    }
    for (name, service) in &stage.gone {
        is_absent(subject, *name, service).await?;
    }
    is_listed(stage).await?;
    has_routes(stage).await
}

async fn is_absent(subject: &Subject, name: Name, service: &Service) -> Result<(), Broken> {
    let expected = format!("{name}: GetLoadBalancer of what was deleted is ABSENT");
    match subject.get(service, None).await {
        Ok(answer) if answer.disposition() == Disposition::Absent => Ok(()),
        Ok(answer) => Err(Broken::new(Rule::Absent, expected, describe(&answer))),
        Err(error) => Err(Broken::new(Rule::Absent, expected, error)),
    }
}

async fn list(subject: &Subject) -> Verdict<Vec<OwnedLoadBalancer>> {
    let listed = subject.client.list(ListLoadBalancersRequest::default());
    let listed = listed.await?;
    expect(
        listed.is_complete(),
        "ListLoadBalancers ends with a message that has complete",
        format!("complete by message: {:?}", listed.completes),
    )?;
    Ok(listed.entries)
}

/// The list has the settled load balancers once each, and no other but those from before.
async fn is_listed(stage: &Stage<'_>) -> Result<(), Broken> {
    if !stage.subject.load_balancers().list {
        return Ok(());
    }
    let listed = stopped(Rule::List, list(&stage.subject).await)?;
    let uids = listed.into_iter().filter_map(|one| one.service);
    let mut uids: Vec<_> = uids.map(|tag| tag.uid).collect();
    let unsettled = stage.unsettled();
    uids.retain(|uid| !unsettled.contains(&**uid) && !stage.others.contains(uid));
    uids.sort_unstable();
    let lives = stage.lives.values();
    let lives = lives.filter(|life| life.balanced && life.settled);
    let mut expected: Vec<_> = lives.map(|life| life.service.uid.clone()).collect();
    expected.sort_unstable();
    if uids == expected {
        return Ok(());
    }
    let identities = stage.identities();
    let named = |uids: &[String]| identities.without(&format!("{uids:?}"));
    let expected = format!("ListLoadBalancers has the Services {}", named(&expected));
    Err(Broken::new(Rule::List, expected, named(&uids)))
}

async fn has_routes(stage: &Stage<'_>) -> Result<(), Broken> {
    if stage.routes.is_empty() {
        return Ok(());
    }
    let listed = stopped(Rule::Routes, stage.subject.list_routes().await)?;
    for (number, way) in stage.routes.iter().filter(|(_, way)| way.settled) {
        let Some(to) = stage.destination(*number) else {
            continue;
        };
        let route = outrigger_api::v1::Route {
            destination_cidr: to.to_string(),
            ..Default::default()
        };
        let entries = routes_to(&listed, &route);
        let (holds, expected) = match &way.node {
            None => (
                entries.is_empty(),
                format!("route {number}: ListRoutes has none to {to}"),
            ),
            Some(node) => (
                matches!(&*entries, [one] if leads_to(one, node) && !one.blackhole),
                format!(
                    "route {number}: ListRoutes has one to {to}, which leads to {}",
                    node.name
                ),
            ),
        };
        if !holds {
            return Err(Broken::new(Rule::Routes, expected, format!("{entries:?}")));
        }
    }
    Ok(())
}

/// Lets the cloud lose the target of a route, which the list then shows.
pub(super) async fn blackhole(stage: &Stage<'_>, number: usize) -> Result<(), Broken> {
    let subject = &stage.subject;
    let Some(to) = stage.destination(number) else {
        return Ok(());
    };
    if stage.routes.get(&number).is_none_or(|way| !way.settled) {
        return Ok(());
    }
    let command = subject.inputs().commands.blackhole.iter().cloned();
    let command: Vec<_> = command.chain([to.to_string()]).collect();
    stopped(Rule::Ended, subject.command(&command).await)?;
    let listed = stopped(Rule::Routes, subject.list_routes().await)?;
    let mut to_it = listed.iter().filter(|route| destination(route) == Some(to));
    if to_it.any(|route| route.blackhole) {
        return Ok(());
    }
    let expected = format!("route {number}: ListRoutes has it with blackhole");
    Err(Broken::new(Rule::Routes, expected, format!("{listed:?}")))
}

fn change(change: &PlannedChange) -> String {
    let action = ChangeAction::as_str_name(&change.action());
    let action = action.trim_start_matches("CHANGE_ACTION_");
    let kind = &change.resource_type;
    format!("{action} {kind} {}: {}", change.resource_id, change.summary)
}

/// All that the provider and its cloud show of a stage, without identities, sorted.
pub(super) async fn shown(stage: &Stage<'_>) -> Result<Vec<String>, Broken> {
    let mut identities = stage.identities();
    let mut lines = Vec::new();
    if !stage.routes.is_empty() {
        let listed = stopped(Rule::Routes, stage.subject.list_routes().await)?;
        for number in stage.routes.keys() {
            let to = stage.destination(*number);
            for route in listed.iter().filter(|route| destination(route) == to) {
                identities.text(&route.name, &format!("name{OF_ROUTE}{number}"));
            }
        }
    }
    let listed = if stage.subject.load_balancers().list {
        stopped(Rule::List, list(&stage.subject).await)?
    } else {
        Vec::new()
    };
    for (name, life) in stage.lives.iter().filter(|(_, life)| life.balanced) {
        lines.extend(of_life(stage, *name, life).await?);
        let is_of = |one: &&OwnedLoadBalancer| {
            one.service
                .as_ref()
                .is_some_and(|tag| tag.uid == life.service.uid)
        };
        for one in listed.iter().filter(is_of) {
            lines.push(format!("{name}: listed with {:?}", one.status));
        }
    }
    let mut lines: Vec<_> = lines.iter().map(|line| identities.without(line)).collect();
    lines.extend(cloud_state(&stage.subject, &identities).await?);
    lines.sort_unstable();
    Ok(lines)
}

async fn of_life(stage: &Stage<'_>, name: Name, life: &Life) -> Result<Vec<String>, Broken> {
    let subject = &stage.subject;
    let targets = stopped(Rule::Get, subject.targets(&stage.nodes()).await)?;
    let answer = subject.get(&life.service, None).await;
    let answer = answer.map_err(|error| {
        let expected = format!("{name}: GetLoadBalancer is READY");
        Broken::new(Rule::Get, expected, error)
    })?;
    let mut lines = vec![
        format!("{name}: Get is {}", name_of(answer.disposition())),
        format!("{name}: Get says {:?} {:?}", answer.reason, answer.message),
    ];
    for point in ingress(&answer) {
        lines.push(format!("{name}: Get has {point:?}"));
    }
    if !subject.declares(Capability::LoadBalancersPlan) {
        return Ok(lines);
    }
    let mut other = life.service.clone();
    other.ports = vec![
        Port::new(
            "TCP",
            9,
            other.ports.first().map_or(0, |port| port.node_port),
        )
        .of_service(),
    ];
    for (operation, service, text) in [
        (PlanOperation::Delete, &life.service, "Plan of a Delete"),
        (
            PlanOperation::Ensure,
            &other,
            "Plan of an Ensure with port 9 alone",
        ),
    ] {
        match subject.plan(service, operation, targets.clone()).await {
            Ok(changes) => {
                lines.extend(
                    changes
                        .iter()
                        .map(|one| format!("{name}: {text}: {}", change(one))),
                );
            }
            Err(error) => lines.push(format!("{name}: {text}: {error}")),
        }
    }
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
    let printed = stopped(Rule::Ended, subject.command(command).await)?;
    let resources = state::resources(&identities.without(&printed));
    Ok(resources
        .into_iter()
        .map(|line| format!("cloud: {line}"))
        .collect())
}

/// The answers of the provider about machines and volumes of the inputs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Lookups {
    machines: Vec<Answered>,
    volumes: Vec<volumes::Answer>,
}

pub(super) async fn lookups(subject: &Subject) -> Verdict<Lookups> {
    let mut lookups = Lookups::default();
    if subject.declares(Capability::Instances) {
        let request = BatchGetInstancesRequest {
            items: subject.target_nodes(),
            view: InstanceView::Metadata.into(),
            ..BatchGetInstancesRequest::default()
        };
        lookups.machines = subject.client.batch(request).await??;
    }
    if subject.declares(Capability::Volumes) {
        let existing = &subject.inputs().volumes.existing;
        lookups.volumes = volumes::look_up(subject, existing).await?;
    }
    Ok(lookups)
}

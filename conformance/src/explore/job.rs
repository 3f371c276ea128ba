//! The calls of one step: made once, with or without a fault, and repeated until they have ended.

use std::time::Duration;

use futures::future::join;
use outrigger_api::v1::{
    EnsureLoadBalancerRequest, ErrorReason, LoadBalancerAnswer,
    LoadBalancerDisposition as Disposition, Node, NodeTargets, Route, Service,
};
use tokio::time::{sleep, timeout};

use super::{
    play::Broken,
    rule::Rule,
    trace::{Fault, Name},
};
use crate::{
    call_error::CallError,
    inputs::limit,
    subject::{Change, Subject, Unended, describe, is_passing, repeated},
};

/// The calls of one step.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Ensure(Name, Service),
    /// True: the Service is deleted, and does not only get another type.
    Delete(Name, Service, bool),
    Update(Vec<(Name, Service)>),
    /// Routes to delete, then one to create.
    Routes(usize, Vec<Route>, Option<Route>),
}

/// The targets of the calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// All targets.
    pub(super) now: Vec<Node>,
    /// Calls about other objects may run at the same time.
    pub(super) races: bool,
}

/// Tries of a call that fails while others run. The controller makes more of them, with back-off.
const TRIES: usize = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(300);

/// The end of a step.
#[derive(Clone, Debug)]
pub(super) enum Done {
    Ready(Vec<(Name, LoadBalancerAnswer)>),
    Refused(Name, CallError),
    Gone(Name, bool),
    Routed(usize),
    RouteRefused(usize, CallError),
    /// The calls may have worked, and will not be repeated.
    Unsettled,
}

impl Nodes {
    async fn targets(&self, subject: &Subject) -> Result<Option<NodeTargets>, Broken> {
        let targets = subject.targets(&self.now).await;
        targets.map_err(|stop| Broken::stopped(Rule::Ended, &stop))
    }
}

/// Makes a call until it has ended, again after an error that other calls may have caused.
async fn among_others(
    races: bool,
    mut call: impl AsyncFnMut() -> Result<LoadBalancerAnswer, Unended>,
) -> Result<LoadBalancerAnswer, Unended> {
    for _ in 1..TRIES {
        match call().await {
            Err(Unended::Error(error)) if races && !is_refusal(&error) => {
                sleep(BETWEEN_TRIES).await;
            }
            ended => return ended,
        }
    }
    call().await
}

/// Errors by which a provider refuses a Service as it is.
fn is_refusal(error: &CallError) -> bool {
    error.reason().is_some_and(|reason| {
        [
            ErrorReason::InvalidRequest,
            ErrorReason::InvalidAnnotation,
            ErrorReason::UnsupportedProtocol,
            ErrorReason::UnsupportedFeature,
        ]
        .contains(&reason)
    })
}

/// Errors by which a provider refuses a route that lies within another one.
fn is_route_refusal(error: &CallError) -> bool {
    is_refusal(error) || error.is(ErrorReason::ConflictingResource)
}

/// Makes the calls of a step with its fault.
pub(super) async fn perform(
    subject: &Subject,
    job: &Job,
    nodes: &Nodes,
    fault: Option<Fault>,
) -> Result<Done, Broken> {
    let stopped = |stop| Broken::stopped(Rule::Process, &stop);
    let Some(fault) = fault else {
        return complete(subject, job, nodes).await;
    };
    // Targets are sent before, so that the fault meets the call itself.
    let targets = nodes.targets(subject).await?;
    let after = |time| sleep(Duration::from_millis(time));
    match fault {
        Fault::Cut(time) => {
            let caller = subject.connect().await.map_err(stopped)?;
            let cut = async {
                after(time).await;
                caller.client.cut();
            };
            // It may have ended before.
            let _ = join(attempt(&caller, job, targets), cut).await;
        }
        Fault::Deadline(time) => {
            let hurried = subject.with_deadline(Duration::from_millis(time));
            let _ = attempt(&hurried, job, targets).await;
        }
        Fault::Kill(time) => {
            let kill = async {
                after(time).await;
                subject.kill().await?;
                subject.start().await
            };
            let (_, killed) = join(attempt(subject, job, targets), kill).await;
            killed.map_err(stopped)?;
            let again = subject.connect().await.map_err(stopped)?;
            return complete(&again, job, nodes).await;
        }
        Fault::Twice => {
            let other = subject.connect().await.map_err(stopped)?;
            let both = join(
                attempt(subject, job, targets.clone()),
                attempt(&other, job, targets),
            );
            let (first, second) = both.await;
            for error in [first, second].into_iter().filter_map(Result::err) {
                if !nodes.races && !is_passing(&error) && !is_route_refusal(&error) {
                    let expected = "an answer to each of two equal calls at the same time, or OPERATION_IN_PROGRESS";
                    return Err(Broken::new(Rule::Ended, expected, error));
                }
            }
        }
        Fault::Again => {
            let first = complete(subject, job, nodes).await?;
            let second = complete(subject, job, nodes).await?;
            if let (Done::Ready(first), Done::Ready(second)) = (&first, &second) {
                same(first, second)?;
            }
            return Ok(second);
        }
        Fault::Once => {
            let _ = attempt(subject, job, targets).await;
            return Ok(Done::Unsettled);
        }
        Fault::Drop(time) => {
            let call = attempt(subject, job, targets);
            let _ = timeout(Duration::from_millis(time), call).await;
            return Ok(Done::Unsettled);
        }
    }
    complete(subject, job, nodes).await
}

/// A repeated call has the answer of the first one.
fn same(
    first: &[(Name, LoadBalancerAnswer)],
    second: &[(Name, LoadBalancerAnswer)],
) -> Result<(), Broken> {
    for ((name, first), (_, second)) in first.iter().zip(second) {
        let is_same = first.status == second.status && first.identity == second.identity;
        if !is_same {
            let expected = format!("{name}: {}", described(first));
            return Err(Broken::new(Rule::Again, expected, described(second)));
        }
    }
    Ok(())
}

fn described(answer: &LoadBalancerAnswer) -> String {
    let identity = answer.identity.clone().unwrap_or_default();
    format!(
        "{}, identity {:?} {:?}",
        describe(answer),
        identity.id,
        identity.name
    )
}

/// The first call of a step, once.
async fn attempt(
    subject: &Subject,
    job: &Job,
    targets: Option<NodeTargets>,
) -> Result<(), CallError> {
    match job {
        Job::Ensure(_, service) => {
            let answered = ensure_once(subject, service, targets);
            answered.await.map(drop)
        }
        Job::Delete(_, service, _) => subject.delete_once(service).await.map(drop),
        Job::Update(services) => {
            for (_, service) in services {
                subject.update(service, targets.clone()).await?;
            }
            Ok(())
        }
        Job::Routes(_, delete, create) => {
            let (change, routes) = match create {
                Some(route) if delete.is_empty() => (Change::Create, std::slice::from_ref(route)),
                _ => (Change::Delete, &**delete),
            };
            let changed = subject.change_routes_once(change, routes).await;
            let errors = changed.into_iter().flatten().filter_map(Result::err);
            errors.map(Err).next().unwrap_or(Ok(()))
        }
    }
}

async fn ensure_once(
    subject: &Subject,
    service: &Service,
    targets: Option<NodeTargets>,
) -> Result<LoadBalancerAnswer, CallError> {
    let request = EnsureLoadBalancerRequest {
        service: Some(service.clone()),
        targets,
        ..EnsureLoadBalancerRequest::default()
    };
    let answered = subject.client.call(request).await?;
    Ok(answered.answer.unwrap_or_default())
}

/// Ensures until READY.
async fn ensure(
    subject: &Subject,
    service: &Service,
    targets: Option<NodeTargets>,
    races: bool,
) -> Result<LoadBalancerAnswer, Unended> {
    let within = limit(subject.inputs().limits.ready);
    let call = async || ensure_once(subject, service, targets.clone()).await;
    let until_ready = async || repeated(within, &[Disposition::Ready], &call).await;
    among_others(races, until_ready).await
}

/// Makes the calls until they have ended.
pub(super) async fn complete(subject: &Subject, job: &Job, nodes: &Nodes) -> Result<Done, Broken> {
    match job {
        Job::Ensure(name, service) => {
            let targets = nodes.targets(subject).await?;
            match ensure(subject, service, targets, nodes.races).await {
                Ok(answer) => Ok(Done::Ready(vec![(*name, answer)])),
                Err(Unended::Error(error)) if is_refusal(&error) => Ok(Done::Refused(*name, error)),
                Err(other) => {
                    let expected = format!("{name}: EnsureLoadBalancer ends with READY");
                    Err(Broken::new(Rule::Ended, expected, other))
                }
            }
        }
        Job::Delete(name, service, for_good) => {
            delete(subject, *name, service, nodes.races).await?;
            Ok(Done::Gone(*name, *for_good))
        }
        Job::Update(services) => update(subject, services, nodes).await.map(Done::Ready),
        Job::Routes(number, delete, create) => {
            if !delete.is_empty() {
                let deleted = subject.delete_routes(delete).await;
                deleted.map_err(|stop| Broken::stopped(Rule::Ended, &stop))?;
            }
            let Some(route) = create else {
                return Ok(Done::Routed(*number));
            };
            create_route(subject, *number, route).await
        }
    }
}

/// Deletes until nothing is left.
pub(super) async fn delete(
    subject: &Subject,
    name: Name,
    service: &Service,
    races: bool,
) -> Result<(), Broken> {
    let within = limit(subject.inputs().limits.gone);
    let call = async || subject.delete_once(service).await;
    let expected = || format!("{name}: DeleteLoadBalancer ends with ABSENT");
    let until_absent = async || repeated(within, &[Disposition::Absent], &call).await;
    let deleted = among_others(races, until_absent).await;
    deleted.map_err(|other| Broken::new(Rule::Absent, expected(), other))?;
    subject.leftovers().forget(service);
    Ok(())
}

/// Gives the targets to load balancers; where that ends otherwise, the load balancer is ensured.
async fn update(
    subject: &Subject,
    services: &[(Name, Service)],
    nodes: &Nodes,
) -> Result<Vec<(Name, LoadBalancerAnswer)>, Broken> {
    let targets = nodes.targets(subject).await?;
    let mut ready = Vec::new();
    for (name, service) in services {
        let answer = match subject.update(service, targets.clone()).await {
            Ok(answer) if answer.disposition() == Disposition::Ready => answer,
            _ => {
                let ensured = ensure(subject, service, targets.clone(), nodes.races).await;
                let expected = || {
                    format!(
                        "{name}: EnsureLoadBalancer after the update of its targets ends with READY"
                    )
                };
                ensured.map_err(|other| Broken::new(Rule::Ended, expected(), other))?
            }
        };
        ready.push((*name, answer));
    }
    Ok(ready)
}

async fn create_route(subject: &Subject, number: usize, route: &Route) -> Result<Done, Broken> {
    let stopped = |stop| Broken::stopped(Rule::Ended, &stop);
    let routes = std::slice::from_ref(route);
    let once = subject.change_routes_once(Change::Create, routes).await;
    match once.map_err(stopped)?.pop() {
        Some(Ok(_made)) => return Ok(Done::Routed(number)),
        Some(Err(error)) if is_route_refusal(&error) => {
            return Ok(Done::RouteRefused(number, error));
        }
        Some(Err(error)) if !is_passing(&error) => {
            let expected = format!("route {number}: CreateRoute makes it");
            return Err(Broken::new(Rule::Ended, expected, error));
        }
        _ => {}
    }
    subject.create_routes(routes).await.map_err(stopped)?;
    Ok(Done::Routed(number))
}

//! The calls of one step: made once, with or without a fault, and repeated until they have ended.

use std::time::Duration;

use futures::future::join;
use outrigger_api::v1::{
    ErrorReason, LoadBalancerAnswer, LoadBalancerDisposition as Disposition, NodeTargets, Service,
};
use tokio::time::sleep;

use super::{
    rule::{Broken, Rule},
    trace::Fault,
};
use crate::{
    call_error::CallError,
    inputs::limit,
    subject::{Subject, Unended, repeated},
};

/// The calls of one step.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Ensure(char, Service),
    Update(char, Service),
    Delete(char, Service),
}

/// The end of a step.
#[derive(Clone, Debug)]
pub(super) enum Done {
    Ready(LoadBalancerAnswer),
    Refused(CallError),
    Gone,
    /// The call may have worked, and is not repeated.
    Unsettled,
}

/// The caller of a step.
pub(super) struct StepCaller {
    pub(super) subject: Subject,
    pub(super) targets: Option<NodeTargets>,
    /// Calls about other objects may run at the same time.
    pub(super) races: bool,
}

/// Tries of a call that fails while others run. The controller makes more of them, with back-off.
const TRIES: usize = 4;
const BETWEEN_TRIES: Duration = Duration::from_millis(300);

/// Errors by which a provider refuses a Service as it is.
fn is_refusal(error: &CallError) -> bool {
    matches!(
        error.reason(),
        Some(
            ErrorReason::InvalidRequest
                | ErrorReason::InvalidAnnotation
                | ErrorReason::UnsupportedProtocol
                | ErrorReason::UnsupportedFeature
                | ErrorReason::ConflictingOptions
        )
    )
}

impl StepCaller {
    /// Makes the calls of a step with its fault, until they have ended.
    pub(super) async fn perform(&self, job: &Job, fault: Option<Fault>) -> Result<Done, Broken> {
        let subject = &self.subject;
        let after = |time| sleep(Duration::from_millis(time));
        match fault {
            None => {}
            Some(Fault::Cut(time)) => {
                let caller = Rule::PROCESS.of(subject.connect().await)?;
                let cut = async {
                    after(time).await;
                    caller.client.cut();
                };
                // It may have ended before.
                let _ = join(self.attempt(&caller, job), cut).await;
            }
            Some(Fault::Deadline(time)) => {
                let hurried = subject.with_deadline(Duration::from_millis(time));
                let _ = self.attempt(&hurried, job).await;
                return Ok(Done::Unsettled);
            }
            Some(Fault::Once) => {
                let _ = self.attempt(subject, job).await;
                return Ok(Done::Unsettled);
            }
            Some(Fault::Kill(time)) => {
                let kill = async {
                    after(time).await;
                    subject.restart().await
                };
                let (_, killed) = join(self.attempt(subject, job), kill).await;
                Rule::PROCESS.of(killed)?;
                return Ok(Done::Unsettled);
            }
            Some(Fault::Twice) => {
                let other = Rule::PROCESS.of(subject.connect().await)?;
                let both = join(self.attempt(subject, job), self.attempt(&other, job));
                let _ = Box::pin(both).await;
            }
        }
        self.complete(job).await
    }

    async fn complete(&self, job: &Job) -> Result<Done, Broken> {
        let subject = &self.subject;
        match job {
            Job::Update(name, service) => match self.attempt(subject, job).await {
                Ok(answer) if answer.disposition() == Disposition::Ready => Ok(Done::Ready(answer)),
                // The controller ensures then, too.
                _ => self.ensure(*name, service).await,
            },
            Job::Ensure(name, service) => self.ensure(*name, service).await,
            Job::Delete(name, service) => {
                let deleted = self.among_others(job, Disposition::Absent).await;
                deleted.map_err(|other| {
                    let expected = format!("{name}: DeleteLoadBalancer ends with ABSENT");
                    Rule::ABSENT.broken(expected, other)
                })?;
                subject.leftovers().forget(service);
                Ok(Done::Gone)
            }
        }
    }

    async fn ensure(&self, name: char, service: &Service) -> Result<Done, Broken> {
        let job = Job::Ensure(name, service.clone());
        match self.among_others(&job, Disposition::Ready).await {
            Ok(answer) => Ok(Done::Ready(answer)),
            Err(Unended::Error(error)) if is_refusal(&error) => Ok(Done::Refused(error)),
            Err(other) => {
                let expected = format!("{name}: EnsureLoadBalancer ends with READY");
                Err(Rule::ENDED.broken(expected, other))
            }
        }
    }

    /// Makes a call until it has ended, again after an error that other calls may have caused.
    async fn among_others(
        &self,
        job: &Job,
        end: Disposition,
    ) -> Result<LoadBalancerAnswer, Unended> {
        let limits = &self.subject.inputs().limits;
        let within = limit(limits.ready).max(limit(limits.gone));
        let call = async || self.attempt(&self.subject, job).await;
        for _ in 1..TRIES {
            match repeated(within, &[end], call).await {
                Err(Unended::Error(error)) if self.races && !is_refusal(&error) => {
                    sleep(BETWEEN_TRIES).await;
                }
                ended => return ended,
            }
        }
        repeated(within, &[end], call).await
    }

    /// The call of a step about a load balancer, once.
    async fn attempt(&self, subject: &Subject, job: &Job) -> Result<LoadBalancerAnswer, CallError> {
        match job {
            Job::Ensure(_, service) => subject.ensure_once(service, self.targets.clone()).await,
            Job::Delete(_, service) => subject.delete_once(service).await,
            Job::Update(_, service) => subject.update(service, self.targets.clone()).await,
        }
    }
}

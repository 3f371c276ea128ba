//! The planned actions of the loop, without any of them (`--plan`).
//!
//! The binary calls [`plan`] with the Services of a list: core decides as for a term that begins now, and the provider
//! plans the changes in the cloud where it can. It changes nothing, in the cloud or in the cluster.

use std::sync::Arc;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use outrigger_core::{
    service::{
        ServiceView,
        capability::Capability,
        ownership::Ownership,
        plan::{EnsureCause, Progress, ServiceFacts, Step},
    },
    targets::{Inheritance, TargetPool},
};

use outrigger_provider::{Error, PlanOperation, PlannedChange, Provider};

/// Plans that are asked for together.
const AT_ONCE: usize = 8;

/// The planned action for the load balancer of one Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Keep,
    /// Nothing yet: the provider would change a load balancer that the loop takes for settled, and finds
    /// so with its next comparison.
    Drift,
    /// It would be made, or changed.
    Ensure(EnsureCause),
    /// It would get other targets.
    Update,
    /// It would be deleted.
    Delete,
    /// It is held: paused, or of a class that the provider does not serve any more.
    Hold,
}

impl Action {
    /// The word for operators and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Drift => "drift",
            Self::Ensure(_) => "ensure",
            Self::Update => "update-targets",
            Self::Delete => "delete",
            Self::Hold => "hold",
        }
    }

    /// Why, where that is known.
    pub const fn cause(self) -> Option<EnsureCause> {
        match self {
            Self::Ensure(cause) => Some(cause),
            _ => None,
        }
    }
}

/// A Service that the provider serves, and what would happen.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Namespace and name.
    pub service: Arc<str>,
    /// The next action of the loop.
    pub action: Action,
    /// Changes in the cloud, as the provider plans them; `None` if the provider cannot plan.
    pub changes: Option<Vec<PlannedChange>>,
    /// Why they are not planned: the provider failed, or the controller refuses the Service before a call.
    pub error: Option<String>,
}

/// Plans the actions of a loop that starts now for `services`, with the changes that `provider`, of this capability,
/// would make for each and that begins with this much knowledge.
/// Changes nothing.
pub async fn plan(
    provider: &Provider,
    capability: &Capability,
    services: Vec<Arc<ServiceView>>,
    pool: &TargetPool,
    inheritance: Inheritance,
    now: Timestamp,
) -> Vec<Planned> {
    let intended = services.into_iter().filter_map(|service| {
        let targets = pool.targets_of(&service);
        let facts = ServiceFacts {
            capability,
            targets: targets.revision(),
            now,
            time_of_day: now,
        };
        let mut progress = Progress::default();
        progress.begin_term(inheritance, &service, &facts);
        let action = intended(&progress, &service, &facts)?;
        Some((service, targets, action))
    });
    let plans = intended.map(|(service, targets, mut action)| async move {
        let operation = match action {
            Action::Delete => PlanOperation::Delete,
            _ => PlanOperation::Ensure,
        };
        let (mut changes, mut error) = (None, None);
        if action != Action::Hold {
            match provider
                .load_balancers()
                .plan(operation, &service, &targets)
                .await
            {
                Ok(planned) => changes = Some(planned),
                Err(Error::NotOffered { .. }) => {}
                Err(failed) => error = Some(failed.to_string()),
            }
        }
        if action == Action::Keep && changes.as_ref().is_some_and(|list| !list.is_empty()) {
            action = Action::Drift;
        }
        Planned {
            service: Arc::clone(&service.key),
            action,
            changes,
            error,
        }
    });
    let mut planned: Vec<_> = stream::iter(plans)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    planned.sort_unstable_by(|a, b| a.service.cmp(&b.service));
    planned
}

/// The result is none for a Service that is not this provider's.
fn intended(
    progress: &Progress,
    service: &ServiceView,
    facts: &ServiceFacts<'_>,
) -> Option<Action> {
    let step = progress.next(service, facts);
    let ownership = Ownership::of(service, Some(facts.capability));
    Some(match step {
        Step::Idle if !ownership.may_be_ours() => return None,
        Step::Idle | Step::At(_) => Action::Keep,
        Step::Hold { .. } => Action::Hold,
        Step::Ensure(ensure) => Action::Ensure(ensure.cause),
        // Targets go first where an Ensure waits.
        Step::Update => progress
            .ensure(service, facts)
            .map_or(Action::Update, |ensure| Action::Ensure(ensure.cause)),
        Step::Delete { .. } => Action::Delete,
        // The step after the write is the same as for a Service that has it.
        Step::Write(patch) => {
            let written = patch.applied_to(service, &service.resource_version);
            return intended(progress, &written, facts);
        }
    })
}

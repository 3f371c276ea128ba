//! Decisions as data: the inputs of one, so that it can be recorded and made again, and its outcome.
//!
//! ```text
//!  loop ─► plan(inputs) ─► outcome ─► carried out
//!             └──── RecordedDecision ───┴──► history, recording ─► RecordedDecision::decide ─► is it the outcome again?
//! ```
//!
//! A recording holds what decisions look at, and no more: the views, which have the annotations alone that are read; the
//! provider's checked answer; and of the state of a lease term the part that concerns the object.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    node::{
        NodeView,
        address::DesiredAddresses,
        initialize::{self, InitializationPlan, Policy},
        instance::{Instance, Lookup},
        lifecycle::{Check, Lifecycle, LifecycleDecision, LifecycleExcerpt, LifecycleFacts},
        ownership::{NodeScope, Prefixes},
        refresh::{self, RefreshPlan},
    },
    selector::Selector,
    service::{
        ServiceView,
        answer::LoadBalancerAnswer,
        capability::Capability,
        plan::{BalancerCall, Consequence, Failure, Progress, ServiceFacts, Step},
    },
    targets::{Revision, Targets},
};

mod reason;

pub use reason::DecisionReason;

/// The inputs of one decision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RecordedDecision<'a> {
    /// [`initialize::plan`].
    Initialize {
        /// The Node.
        node: Cow<'a, NodeView>,
        /// Its machine.
        instance: Cow<'a, Instance>,
        /// The provider's declarations.
        policy: Cow<'a, Policy>,
    },
    /// [`initialize::addresses`].
    Addresses {
        /// The Node.
        node: Cow<'a, NodeView>,
        /// Its machine.
        instance: Cow<'a, Instance>,
    },
    /// [`refresh::plan`].
    Refresh {
        /// The Node.
        node: Cow<'a, NodeView>,
        /// Its machine.
        instance: Cow<'a, Instance>,
        /// The provider's declarations.
        policy: Cow<'a, Policy>,
    },
    /// [`Lifecycle::check`].
    Check {
        /// When.
        now: Timestamp,
        /// The Node.
        node: Cow<'a, NodeView>,
        /// Facts beside it.
        facts: NodeFacts<'a>,
        /// The state before.
        state: LifecycleExcerpt,
    },
    /// [`Lifecycle::answered`].
    Judge {
        /// When.
        now: Timestamp,
        /// The Node.
        node: Cow<'a, NodeView>,
        /// The Node when the provider was asked, if it was another then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_at_lookup: Option<Cow<'a, NodeView>>,
        /// The answer; absent: none.
        lookup: Option<Cow<'a, Lookup>>,
        /// Facts beside them.
        facts: NodeFacts<'a>,
        /// The state before.
        state: LifecycleExcerpt,
    },
    /// [`Progress::next`].
    NextStep {
        /// When.
        now: Timestamp,
        /// The Service.
        service: Cow<'a, ServiceView>,
        /// Facts beside it.
        facts: BalancerFacts<'a>,
        /// The state before.
        state: Cow<'a, Progress>,
    },
    /// [`Progress::concluded`].
    Conclude {
        /// When.
        now: Timestamp,
        /// The Service.
        service: Cow<'a, ServiceView>,
        /// The call.
        call: BalancerCall<'a>,
        /// Its answer, or why there is none.
        result: Cow<'a, Result<LoadBalancerAnswer, Box<Failure>>>,
        /// Facts beside them.
        facts: BalancerFacts<'a>,
        /// The state before.
        state: Cow<'a, Progress>,
    },
}

/// [`LifecycleFacts`] of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeFacts<'a> {
    prefixes: Cow<'a, Prefixes>,
    selector: Option<Cow<'a, Selector>>,
    foreign_prefix_seen: bool,
    nodes: usize,
    visibility_delay: Duration,
    time_of_day: Timestamp,
    out_of_service_after: Duration,
    not_managed: bool,
}

impl<'a> From<&LifecycleFacts<'a>> for NodeFacts<'a> {
    fn from(facts: &LifecycleFacts<'a>) -> Self {
        Self {
            prefixes: Cow::Borrowed(facts.scope.prefixes),
            selector: facts.scope.selector.map(Cow::Borrowed),
            foreign_prefix_seen: facts.scope.foreign_prefix_seen,
            nodes: facts.nodes,
            visibility_delay: facts.visibility_delay,
            time_of_day: facts.time_of_day,
            out_of_service_after: facts.out_of_service_after,
            not_managed: facts.not_managed,
        }
    }
}

impl NodeFacts<'_> {
    fn facts(&self) -> LifecycleFacts<'_> {
        LifecycleFacts {
            scope: NodeScope {
                prefixes: &self.prefixes,
                selector: self.selector.as_deref(),
                foreign_prefix_seen: self.foreign_prefix_seen,
            },
            nodes: self.nodes,
            visibility_delay: self.visibility_delay,
            time_of_day: self.time_of_day,
            out_of_service_after: self.out_of_service_after,
            not_managed: self.not_managed,
        }
    }
}

/// [`ServiceFacts`] of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BalancerFacts<'a> {
    capability: Cow<'a, Capability>,
    targets: Cow<'a, Targets>,
    applied: Option<Cow<'a, Revision>>,
    time_of_day: Timestamp,
}

impl<'a> From<&ServiceFacts<'a>> for BalancerFacts<'a> {
    fn from(facts: &ServiceFacts<'a>) -> Self {
        Self {
            capability: Cow::Borrowed(facts.capability),
            targets: Cow::Borrowed(facts.targets),
            applied: facts.applied.map(Cow::Borrowed),
            time_of_day: facts.time_of_day,
        }
    }
}

impl BalancerFacts<'_> {
    fn facts(&self) -> ServiceFacts<'_> {
        ServiceFacts {
            capability: &self.capability,
            targets: &self.targets,
            applied: self.applied.as_deref(),
            time_of_day: self.time_of_day,
        }
    }
}

/// The outcome of a [`RecordedDecision`].
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum DecisionOutcome<'a> {
    /// The outcome of [`RecordedDecision::Initialize`].
    Initialize(PlanOutcome<Cow<'a, InitializationPlan>>),
    /// The outcome of [`RecordedDecision::Addresses`].
    Addresses(PlanOutcome<Cow<'a, DesiredAddresses>>),
    /// The outcome of [`RecordedDecision::Refresh`].
    Refresh(Cow<'a, RefreshPlan>),
    /// The outcome of [`RecordedDecision::Check`].
    Check(Cow<'a, Check>),
    /// The outcome of [`RecordedDecision::Judge`].
    Judge(Cow<'a, LifecycleDecision>),
    /// The outcome of [`RecordedDecision::NextStep`].
    NextStep(Cow<'a, Step>),
    /// The outcome of [`RecordedDecision::Conclude`].
    Conclude(Cow<'a, Consequence>),
}

/// A plan, or why there is none.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanOutcome<P> {
    /// The plan.
    Plan(P),
    /// No plan follows from these inputs.
    #[serde(serialize_with = "as_text")]
    Error(initialize::Error),
}

fn as_text<S: Serializer>(error: &initialize::Error, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(error)
}

impl<'a, P: ToOwned> From<&'a Result<P, initialize::Error>> for PlanOutcome<Cow<'a, P>> {
    fn from(planned: &'a Result<P, initialize::Error>) -> Self {
        match planned {
            Ok(plan) => Self::Plan(Cow::Borrowed(plan)),
            Err(error) => Self::Error(error.clone()),
        }
    }
}

impl<P: ToOwned<Owned = P>> From<Result<P, initialize::Error>> for PlanOutcome<Cow<'static, P>> {
    fn from(planned: Result<P, initialize::Error>) -> Self {
        planned.map_or_else(Self::Error, |plan| Self::Plan(Cow::Owned(plan)))
    }
}

impl RecordedDecision<'_> {
    /// Decides, once more if these are the inputs of a recording.
    pub fn decide(self) -> DecisionOutcome<'static> {
        match self {
            Self::Initialize {
                node,
                instance,
                policy,
            } => DecisionOutcome::Initialize(initialize::plan(&node, &instance, &policy).into()),
            Self::Addresses { node, instance } => {
                DecisionOutcome::Addresses(initialize::addresses(&node, &instance).into())
            }
            Self::Refresh {
                node,
                instance,
                policy,
            } => DecisionOutcome::Refresh(Cow::Owned(refresh::plan(&node, &instance, &policy))),
            Self::Check {
                now,
                node,
                facts,
                state,
            } => {
                let mut lifecycle = Lifecycle::restored(now, &node.name, state);
                DecisionOutcome::Check(Cow::Owned(lifecycle.check(now, &node, &facts.facts())))
            }
            Self::Judge {
                now,
                node,
                node_at_lookup,
                lookup,
                facts,
                state,
            } => {
                let mut lifecycle = Lifecycle::restored(now, &node.name, state);
                let before = node_at_lookup.as_deref().unwrap_or(&node);
                let facts = facts.facts();
                let decided = lifecycle.answered(now, &node, before, lookup.as_deref(), &facts);
                DecisionOutcome::Judge(Cow::Owned(decided))
            }
            Self::NextStep {
                now,
                service,
                facts,
                state,
            } => DecisionOutcome::NextStep(Cow::Owned(state.next(now, &service, &facts.facts()))),
            Self::Conclude {
                now,
                service,
                call,
                result,
                facts,
                state,
            } => {
                let mut progress = state.into_owned();
                let facts = facts.facts();
                let concluded = progress.concluded(now, &service, &call, &result, &facts);
                DecisionOutcome::Conclude(Cow::Owned(concluded))
            }
        }
    }

    /// The name of the decision.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Initialize { .. } => "initialize",
            Self::Addresses { .. } => "addresses",
            Self::Refresh { .. } => "refresh",
            Self::Check { .. } => "check",
            Self::Judge { .. } => "judge",
            Self::NextStep { .. } => "next_step",
            Self::Conclude { call, .. } => match call {
                BalancerCall::Ensure(_) => "ensure",
                BalancerCall::Update(_) => "update",
                BalancerCall::Delete => "delete",
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

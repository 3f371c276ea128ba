//! When a Node whose instance is stopped is taken out of service, so that its Pods and volumes move to other Nodes.
//!
//! The taint [`crate::node::TAINT_OUT_OF_SERVICE`] lets Kubernetes delete the Pods of a Node by force and detach its
//! volumes, which does harm if anything still runs there. So it is added only if all of this holds:
//! - an operator asks for it, by the flag or by the Node's label ([`NodeView::out_of_service_after`]);
//! - the provider says `SHUTDOWN` for that long, at least twice, and no answer in between, to whichever loop, failed or said
//!   otherwise (a power state that is not known says nothing);
//! - the kubelet is silent all the while: `Ready` is `Unknown`. A kubelet that reports that it is not ready runs;
//! - the Node is the provider's beyond doubt, and the API server holds it as it was judged;
//! - a [`DeletionLimiter`] of its own, which counts stops, allows it, in a small cluster too: no more than half of the Nodes
//!   are stopped, and another one has been found that runs; the one that counts absences is not exceeded, and the
//!   provider, asked once more about itself, is ready.
//!
//! Each Node of the provider that is not ready and whose instance is stopped counts, those that stay in service too: a cloud
//! that says so of most Nodes is more likely to be wrong than right.
//!
//! Nothing of this outlives the process: after a restart the time counts from zero.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{Lifecycle, LifecycleAction, LifecycleFacts, has_same_readiness};
use crate::node::{
    NodeView, Ready, UnreadableLabel,
    change::TaintAddition,
    deletion_limit::{Absent, Counts, DeletionRefusal, Doubt},
};

/// Why a Node whose instance is stopped stays in service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InService {
    /// Its instance has not been stopped for long enough, without another answer in between.
    #[error("its instance has not been stopped for long enough before {at:.0}")]
    NotYet {
        /// When the next answer counts.
        at: Timestamp,
    },
    /// Its label says no time.
    #[error(transparent)]
    UnreadableLabel(#[from] UnreadableLabel),
    /// It has no provider ID, and may be another provider's.
    #[error(
        "it has no provider ID, and either --node-selector does not select it or the cluster has nodes of another provider"
    )]
    NotOwned,
    /// Too many nodes are stopped.
    #[error("too many nodes are stopped together; a second look at {until:.0} decides")]
    LimitExceeded {
        /// When the second look is due.
        until: Timestamp,
    },
    /// More than half of the provider's nodes are stopped.
    #[error("more than half of the provider's nodes are stopped; {BY_HAND}")]
    MajorityStopped,
    /// The provider has found no other instance that runs since.
    #[error(
        "the provider was asked again, and has found no other node of the cluster that runs; {BY_HAND}"
    )]
    NoneRuns,
    /// So many instances are absent that the provider's answers are in doubt.
    #[error(
        "more nodes are absent from the cloud than the rate limit of deletions allows; {BY_HAND}"
    )]
    DeletionsLimited,
    /// The provider's answers are not to be trusted now.
    #[error("the provider is not READY right before the taint is added ({reason}); {BY_HAND}")]
    ProviderNotReady {
        /// How it is, in its own words.
        reason: Box<str>,
    },
}

/// The way of Kubernetes' own page.
const BY_HAND: &str = "an operator who knows that it is stopped adds the taint by hand: kubectl taint node NODE \
                       node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";

impl InService {
    /// The metric label: snake case, stable across releases.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotYet { .. } => "not_yet",
            Self::UnreadableLabel(_) => "unreadable_label",
            Self::NotOwned => "not_owned",
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::MajorityStopped => "majority_stopped",
            Self::NoneRuns => "none_runs",
            Self::DeletionsLimited => "deletions_limited",
            Self::ProviderNotReady { .. } => "provider_not_ready",
        }
    }

    /// When time alone may change it.
    pub(super) const fn until(&self) -> Option<Timestamp> {
        match self {
            Self::NotYet { at: until } | Self::LimitExceeded { until } => Some(*until),
            _ => None,
        }
    }
}

impl From<DeletionRefusal> for InService {
    fn from(refusal: DeletionRefusal) -> Self {
        match refusal {
            DeletionRefusal::LookAgain { at } | DeletionRefusal::Contradicted { at } => {
                Self::NotYet { at }
            }
            DeletionRefusal::LimitExceeded { until } => Self::LimitExceeded { until },
            DeletionRefusal::AwaitsOperator(Doubt::FindsNone) => Self::NoneRuns,
            // The limiter of stops is never off.
            DeletionRefusal::AwaitsOperator(Doubt::Majority) | DeletionRefusal::Off => {
                Self::MajorityStopped
            }
        }
    }
}

impl Lifecycle {
    /// The provider says that the instance of `node` is stopped.
    pub(super) fn stopped(
        &mut self,
        now: Timestamp,
        node: &NodeView,
        node_at_lookup: &NodeView,
        facts: &LifecycleFacts<'_>,
    ) -> LifecycleAction {
        let absent = |lasting| Absent {
            nodes: facts.nodes,
            more_answers: 0,
            lasting,
            is_announced: false,
            is_labelled: false,
        };
        let is_silent = node.ready == Ready::Unknown && has_same_readiness(node, node_at_lookup);
        let owns = facts.scope.owns(node);
        let lasting = match node.out_of_service_after(facts.out_of_service_after) {
            Ok(Some(lasting)) if is_silent && !node.is_out_of_service() => lasting,
            after => {
                if owns {
                    let absent = absent(Duration::ZERO);
                    self.stops.absent_and_kept(now, &node.name, absent);
                }
                return match after {
                    Ok(_) => LifecycleAction::Keep,
                    Err(unreadable) => LifecycleAction::KeepInService(unreadable.into()),
                };
            }
        };
        if !owns {
            return LifecycleAction::KeepInService(InService::NotOwned);
        }
        let (name, nodes) = (&node.name, facts.nodes);
        match self.stops.absent(now, name, absent(lasting)) {
            Ok(_) if self.limiter.count(now, nodes).is_exceeded() => {
                LifecycleAction::KeepInService(InService::DeletionsLimited)
            }
            Ok(_) => LifecycleAction::TakeOutOfService(TaintAddition::out_of_service(node)),
            Err(refusal) => LifecycleAction::KeepInService(refusal.into()),
        }
    }

    /// Decides whether the taint that follows from an answer may be added now. `provider_trouble` is what the provider
    /// reported about itself after the answer; `None` if it is ready.
    ///
    /// # Errors
    /// The provider is not ready, or another loop's answer contradicts the stop.
    pub fn last_look_at_stop(
        &self,
        node: &NodeView,
        provider_trouble: Option<Box<str>>,
    ) -> Result<(), InService> {
        if let Some(reason) = provider_trouble {
            return Err(InService::ProviderNotReady { reason });
        }
        match self.stops.contradiction(&node.name) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(()),
        }
    }

    /// The API server has accepted the taint: it counts for one window, and then as long as it is stopped.
    pub fn taken_out_of_service(&mut self, now: Timestamp, name: &Arc<str>) {
        self.stops.removed(now, name);
    }

    /// The counts of stops, with `nodes` of the provider's in the cluster: `absent` is how many are stopped, `deleted` how
    /// many were taken out of service in the window; a Node that was counts there alone.
    pub fn stop_counts(&mut self, now: Timestamp, nodes: usize) -> Counts {
        self.stops.count(now, nodes)
    }
}

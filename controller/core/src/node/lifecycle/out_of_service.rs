//! When a Node whose instance is stopped is taken out of service, so that its Pods and volumes move to other Nodes.
//!
//! The taint [`crate::node::TAINT_OUT_OF_SERVICE`] lets Kubernetes delete the Pods of a Node by force and detach its
//! volumes, which does harm if anything still runs there. So it is added only if all of this holds:
//! - an operator asks for it, by the flag or by the Node's label ([`NodeView::out_of_service_after`]);
//! - the provider says `SHUTDOWN` for that long, at least twice, and no answer in between, to whichever loop, failed or
//!   said
//!   otherwise (a power state that is not known says nothing);
//! - the kubelet is silent all the while: `Ready` is `Unknown`. A kubelet that reports that it is not ready runs;
//! - the Node is the provider's beyond doubt, and the API server holds it as it was judged;
//! - a [`DeletionLimiter`] of its own, which counts stops, allows it, in a small cluster too: no more than half of the
//!   Nodes
//!   are stopped, and another one has been found that runs; the one that counts absences is not exceeded, and the
//!   provider, asked once more about itself, is ready.
//!
//! Each Node of the provider that is not ready and whose instance is stopped counts, those that stay in service too: a
//! cloud that says so of most Nodes is more likely to be wrong than right.
//!
//! Nothing of this outlives the process: after a restart the time counts from zero.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{Lifecycle, LifecycleAction, LifecycleFacts, Measure, Withheld, has_same_readiness};
use crate::node::{
    NodeView, Ready,
    change::NodeChange,
    deletion_limit::{Absent, Counts},
};

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
        let kept = |why| LifecycleAction::Withhold(Measure::OutOfService, why);
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
                    Err(unreadable) => kept(unreadable.into()),
                };
            }
        };
        if !owns {
            return kept(Withheld::NotOwned);
        }
        let (name, nodes) = (&node.name, facts.nodes);
        match self.stops.absent(now, name, absent(lasting)) {
            Ok(_) if self.limiter.count(now, nodes).is_exceeded() => {
                kept(Withheld::DeletionsLimited)
            }
            Ok(_) => LifecycleAction::TakeOutOfService(NodeChange::take_out_of_service()),
            Err(refusal) => kept(refusal.into()),
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

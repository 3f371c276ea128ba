//! Targets that go out to all load balancers, and the record of them on the Lease.

use super::{Call, Stage, Term, may_concern};
use crate::services::{Services, State, UIDS, server::Versioned};

impl Term {
    /// `Rollout::keep_inherited`.
    pub(super) fn keep_inherited(&mut self, model: &Services, state: &State) {
        if self.applied == Some(self.targets) {
            let facts = model.facts(state.world, self.targets, self.applied);
            for (uid, key) in UIDS.iter().zip(&mut self.keys) {
                if let Some(live) = state.leader.live(uid) {
                    key.progress.targets_change(&live.service, &facts);
                }
            }
        }
    }

    /// `Rollout::queue_without_targets`.
    pub(super) fn queue_without_targets(&mut self, model: &Services, state: &State) {
        let facts = model.facts(state.world, self.targets, self.applied);
        for (uid, key) in UIDS.iter().zip(&mut self.keys) {
            if let Some(live) = state.leader.live(uid) {
                key.progress.targets_change(&live.service, &facts);
                key.is_due |= key.progress.targets.are_needed(&live.service, &facts);
            }
        }
    }

    /// `Rollout::finish`, `Applied::record`.
    pub(super) fn all_have_targets(&self, model: &Services, state: &State) -> bool {
        let facts = model.facts(state.world, self.targets, self.applied);
        self.applied != Some(self.targets)
            && UIDS.iter().zip(&self.keys).all(|(uid, key)| {
                let in_flight = match &key.stage {
                    Stage::Lease(_) => return false,
                    Stage::Called { call, .. } | Stage::Result { call, .. } => Some(call),
                    _ => None,
                };
                let is_other =
                    |call: &Call| call.kind.has_targets() && call.targets != self.targets;
                let live = state
                    .leader
                    .live(uid)
                    .filter(|live| may_concern(&live.service));
                let blocks = |live: Versioned| {
                    key.progress
                        .targets
                        .block_lease_revision(&live.service, &facts)
                };
                key.orphaned.is_none()
                    && !in_flight.is_some_and(is_other)
                    && !live.is_some_and(blocks)
            })
    }
}

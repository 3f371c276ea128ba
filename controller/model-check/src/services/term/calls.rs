//! A call goes out, and the provider does what it asks for.

use outrigger_core::service::{
    answer::Disposition, change::needs_sync, last_applied::Hash, plan::Ensure,
};

use super::{Call, Kind, LeaseWrite, Stage, Term};
use crate::services::{LoadBalancer, Services, State, UIDS, server::Versioned};

impl Term {
    /// `Reconciler::ensure`.
    pub(super) fn ensure(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        planned: &Versioned,
        mut ensure: Ensure,
    ) {
        self.targets = state.world.nodes;
        self.queue_without_targets(model, state);
        ensure.set_targets(&model.targets[self.targets]);
        let call = Call {
            kind: Kind::Ensure(ensure),
            planned: planned.clone(),
            targets: self.targets,
        };
        self.begin_update(model, state, at, call);
    }

    /// `Applied::begin`.
    pub(super) fn begin_update(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        call: Call,
    ) {
        if self.applied == Some(call.targets) {
            self.send(model, state, at, call);
        } else if state.lease.is_none() && self.lease.is_none() {
            self.applied = None;
            self.send(model, state, at, call);
        } else {
            self.lease = Some(LeaseWrite::Clear);
            self.keys[at].stage = Stage::Lease(call);
        }
    }

    /// A call goes out, if it is still what its Service wants (`ServiceTerm::is_current`).
    pub(super) fn send(&mut self, model: &Services, state: &State, at: usize, mut call: Call) {
        let key = &mut self.keys[at];
        key.stage = Stage::Rest;
        let Some(live) = state.leader.live(UIDS[at]) else {
            return;
        };
        if needs_sync(
            &call.planned.service,
            &live.service,
            model.capability(state.world),
        ) {
            key.is_due = true;
            return;
        }
        if matches!(call.kind, Kind::Ensure(_)) {
            key.is_cleaned_up = false;
        }
        call.planned = live;
        key.stage = Stage::Called { call, answer: None };
    }

    /// The provider does what the call asks for.
    pub(super) fn cloud_acts(&mut self, model: &Services, state: &mut State, at: usize) {
        let Stage::Called { call, answer } = &mut self.keys[at].stage else {
            return;
        };
        let in_cloud = &mut state.cloud[at];
        let is_slow = std::mem::take(&mut state.world.is_slow);
        *answer = Some(match &call.kind {
            _ if !state.world.serves => Disposition::NotManaged,
            Kind::Ensure(_) => {
                let inputs = Hash::of(&call.planned.service, model.capability(state.world));
                *in_cloud = Some(LoadBalancer {
                    inputs,
                    targets: call.targets,
                });
                if is_slow {
                    Disposition::InProgress
                } else {
                    Disposition::Ready
                }
            }
            Kind::Update { .. } => match in_cloud {
                Some(balancer) => {
                    balancer.targets = call.targets;
                    Disposition::Ready
                }
                None => Disposition::Absent,
            },
            Kind::Delete | Kind::CleanUp if in_cloud.is_some() && !state.may_delete[at] => {
                state.violation = Some("a load balancer is deleted that its user has not given up");
                Disposition::Absent
            }
            Kind::Delete | Kind::CleanUp if is_slow && in_cloud.is_some() => {
                Disposition::InProgress
            }
            Kind::Delete | Kind::CleanUp => {
                *in_cloud = None;
                Disposition::Absent
            }
        });
    }
}

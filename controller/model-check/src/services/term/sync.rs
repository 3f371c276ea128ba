//! A key is taken: the next step for a Service, or what is left of one that is gone; and a comparison.

use outrigger_core::service::{
    ServiceView,
    answer::{Disposition, LoadBalancerCall},
    ownership::{Ownership, is_released},
    plan::{Mode, Step},
};

use super::{Call, Kind, Stage, Term, Then, answers::answer};
use crate::{
    hashed::Hashed,
    services::{
        Services, State, UIDS,
        server::{Versioned, Write},
    },
};

impl Term {
    /// `Drift::compare`, with a stale answer. Returns true if it finds a difference.
    pub(super) fn compare(&mut self, model: &Services, state: &State, at: usize) -> bool {
        let Some(live) = state.leader.live(UIDS[at]) else {
            return false;
        };
        let facts = model.facts(state.world, self.targets, self.applied);
        let key = &mut self.keys[at];
        let is_settled = key.progress.next(self.now, &live.service, &facts) == Step::Idle;
        if !is_settled || Ownership::of(&live.service, Some(facts.capability)) != Ownership::Provide
        {
            return false;
        }
        let answer = answer(LoadBalancerCall::Get, Disposition::Absent);
        key.is_due |= key.progress.observed(&live.service, &answer);
        true
    }

    /// `Reconciler::sync`.
    pub(super) fn take(&mut self, model: &Services, state: &mut State, at: usize) {
        let key = &mut self.keys[at];
        key.is_due = false;
        key.until = None;
        let capability = Some(model.capability(state.world));
        match (state.leader.live(UIDS[at]), key.orphaned.clone()) {
            (None, None) => key.reset(),
            (None, Some(orphaned)) => self.clean_up(model, state, at, &orphaned),
            (Some(live), Some(orphaned)) if is_released(&orphaned, &live.service, capability) => {
                self.clean_up(model, state, at, &orphaned);
            }
            (Some(live), _) => {
                key.orphaned = None;
                self.run_step(model, state, at, &live);
            }
        }
    }

    /// `Cleanup::clean_up`.
    fn clean_up(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        orphaned: &Hashed<ServiceView>,
    ) {
        let capability = Some(model.capability(state.world));
        if !Ownership::of(orphaned, capability).may_be_ours() || orphaned.is_left_alone() {
            return self.finish(state, at);
        }
        if let Some(live) = self.read(model, state, at)
            && !is_released(orphaned, &live.service, capability)
        {
            if state.leader.live(UIDS[at]).is_some() {
                self.finish(state, at);
            } else {
                self.keys[at].is_due = true;
            }
            return;
        }
        if let Step::At(until) = self.keys[at].progress.clean_up(self.now) {
            self.keys[at].until = Some(until);
            return;
        }
        let planned = Versioned {
            version: 0,
            service: orphaned.clone(),
        };
        let call = Call {
            kind: Kind::CleanUp,
            planned,
            targets: self.targets,
        };
        self.keys[at].stage = Stage::Called { call, answer: None };
    }

    /// `ObjectWriter::read`: the Service as the API server has it.
    pub(super) fn read(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
    ) -> Option<Versioned> {
        let live = state
            .server
            .live()
            .filter(|live| *live.service.uid == *UIDS[at])?;
        let change = state.leader.refreshed(&live);
        self.changed(model, state, change.into_iter().collect());
        Some(live)
    }

    /// `Reconciler::run_steps`, one step of it.
    fn run_step(&mut self, model: &Services, state: &mut State, at: usize, live: &Versioned) {
        let facts = model.facts(state.world, self.targets, self.applied);
        let key = &mut self.keys[at];
        if std::mem::take(&mut key.is_edited) {
            key.progress.edited(&live.service, facts.capability);
        }
        key.progress.check_record(&live.service);
        let step = key.progress.next(self.now, &live.service, &facts);
        let is_batch = step.mode() == Mode::Batch;
        let mut write = |patch, then| {
            let write = Write::of(patch, live);
            key.stage = Stage::Step {
                write,
                answer: None,
                then,
            };
        };
        let call = |kind| Call {
            kind,
            planned: live.clone(),
            targets: self.targets,
        };
        match step {
            Step::Idle | Step::Hold { patch: None, .. } => {}
            Step::At(until) => key.until = Some(until),
            Step::Update => {
                let call = call(Kind::Update { then_again: false });
                self.begin_update(model, state, at, call);
            }
            Step::Ensure(_) if is_batch => {
                let call = call(Kind::Update { then_again: true });
                self.begin_update(model, state, at, call);
            }
            Step::Ensure(mut ensure) => match ensure.prepare.take() {
                Some(patch) => write(patch, Then::Ensure(ensure)),
                None => self.ensure(model, state, at, live, ensure),
            },
            Step::Delete { .. } => {
                key.stage = Stage::Called {
                    call: call(Kind::Delete),
                    answer: None,
                };
            }
            Step::Hold {
                patch: Some(patch), ..
            } => write(patch, Then::Rest),
            Step::Write(patch) => write(patch, Then::Again),
        }
    }
}

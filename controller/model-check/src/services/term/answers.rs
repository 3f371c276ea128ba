//! The consequences of the answer to a call, and of that to a write.

use std::time::Duration;

use outrigger_core::{
    effects::Effects,
    error_class::{ErrorClass, Requeue},
    forbidden_addresses::ForbiddenAddresses,
    service::{
        answer::{Disposition, LoadBalancerAnswer, LoadBalancerCall, RawAnswer},
        ownership::{Ownership, is_released},
        plan::{Consequence, Failure},
    },
};

use super::{Call, Kind, Stage, Term, Then};
use crate::services::{
    Services, State, UIDS, place,
    server::{Answer, Write},
};

/// How the write of a result ended: when to look again, or that the Service is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    WithWait(Option<Requeue>),
    Gone,
}

impl Term {
    /// `Writes::apply` after a call, once; none: no answer came.
    pub(super) fn answered(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        call: Call,
        result: Option<Disposition>,
    ) {
        self.keys[at].stage = Stage::Rest;
        let capability = model.capability(state.world);
        let answer = result.map(|disposition| answer(call.kind.of_call(), disposition));
        let unproven = answer
            .as_ref()
            .filter(|_| matches!(call.kind, Kind::Delete | Kind::CleanUp))
            .and_then(|answer| Failure::of_withdrawn(answer, &call.planned.service, capability));
        if matches!(call.kind, Kind::CleanUp) {
            return self.cleanup_answered(model, state, at, answer.as_ref(), unproven.as_ref());
        }
        let failure = unproven.unwrap_or_else(no_answer);
        let is_proven = answer.is_some() && failure.class == ErrorClass::Unavailable;
        let answered = answer.as_ref().filter(|_| is_proven).ok_or(&failure);
        if matches!(call.kind, Kind::Delete) {
            self.keys[at].is_cleaned_up =
                answered.is_ok_and(|answer| answer.disposition != Disposition::InProgress);
        }
        let Some(live) = state.leader.live(UIDS[at]) else {
            return self.applied(model, state, at, &call, result, Ended::Gone);
        };
        let facts = model.facts(state.world, self.targets, self.applied);
        let key = &mut self.keys[at];
        if std::mem::take(&mut key.is_edited) {
            key.progress.edited(&live.service, facts.capability);
        }
        let (progress, service) = (&mut key.progress, &live.service);
        progress.check_record(service);
        let Consequence { patch, requeue, .. } = match &call.kind {
            Kind::Ensure(ensure) => progress.ensured(self.now, service, ensure, answered, &facts),
            Kind::Update { .. } => progress.updated(
                self.now,
                service,
                &model.targets[call.targets],
                answered,
                &facts,
            ),
            Kind::Delete | Kind::CleanUp => {
                progress.deleted(self.now, Some(service), answered, &facts)
            }
        };
        match patch {
            Some(patch) => {
                let write = Write::of(patch, &live);
                key.stage = Stage::Result {
                    call,
                    result,
                    write,
                    requeue,
                    answer: None,
                };
            }
            None => self.applied(model, state, at, &call, result, Ended::WithWait(requeue)),
        }
    }

    /// The end of `Writes::apply`, and of the call.
    fn applied(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        call: &Call,
        result: Option<Disposition>,
        ended: Ended,
    ) {
        let targets = self.targets;
        let key = &mut self.keys[at];
        key.stage = Stage::Rest;
        if let Kind::Delete = call.kind {
            if ended == Ended::WithWait(None) {
                return self.finish(state, at);
            }
            key.is_cleaned_up = false;
            let has_ended = result
                .is_some_and(|it| it != Disposition::InProgress && it != Disposition::NotManaged);
            let live = state.leader.live(UIDS[at]);
            let capability = Some(model.capability(state.world));
            let is_left = live
                .is_none_or(|live| is_released(&call.planned.service, &live.service, capability));
            if ended == Ended::Gone || (has_ended && is_left) {
                let answer =
                    result.map(|disposition| answer(LoadBalancerCall::Delete, disposition));
                let unproven = answer.as_ref().and_then(|answer| {
                    Failure::of_withdrawn(
                        answer,
                        &call.planned.service,
                        model.capability(state.world),
                    )
                });
                return self.cleanup_answered(model, state, at, answer.as_ref(), unproven.as_ref());
            }
        }
        let wait = match ended {
            Ended::WithWait(wait) => wait,
            Ended::Gone => None,
        };
        match wait {
            Some(Requeue::After(delay)) if delay > Duration::ZERO => {
                key.until = Some(self.now + delay);
            }
            Some(Requeue::After(_) | Requeue::BackOff | Requeue::SlowBackOff) => key.is_due = true,
            Some(Requeue::OnChange | Requeue::Stop) => {}
            None => key.is_due |= matches!(call.kind, Kind::Update { then_again: true }),
        }
        // `requeue_if_outdated`.
        key.is_due |=
            matches!(call.kind, Kind::Ensure(_) | Kind::Update { .. }) && call.targets != targets;
    }

    /// `Cleanup::cleanup_answered`.
    fn cleanup_answered(
        &mut self,
        model: &Services,
        state: &State,
        at: usize,
        answer: Option<&LoadBalancerAnswer>,
        unproven: Option<&Failure>,
    ) {
        if unproven.is_some() {
            return self.finish(state, at);
        }
        let facts = model.facts(state.world, self.targets, self.applied);
        let failure = no_answer();
        let key = &mut self.keys[at];
        let decided = key
            .progress
            .deleted(self.now, None, answer.ok_or(&failure), &facts);
        match decided.requeue {
            Some(Requeue::After(delay)) => key.until = Some(self.now + delay),
            Some(_) => key.is_due = true,
            None => self.finish(state, at),
        }
    }

    /// `Cleanup::finish`.
    pub(super) fn finish(&mut self, state: &State, at: usize) {
        let key = &mut self.keys[at];
        key.orphaned = None;
        key.reset();
        if let Some(next) = &state.leader.held
            && (*next.service.uid != *UIDS[at]
                || Ownership::of(&next.service, None) == Ownership::WaitOver)
        {
            self.keys[place(&next.service.uid)].is_due = true;
        }
    }

    /// The answer to the write of a step or of a result (`ObjectWriter::write`); none: it was lost.
    pub(super) fn write_answered(
        &mut self,
        model: &Services,
        state: &mut State,
        at: usize,
        answer: Option<Answer>,
    ) {
        let stage = std::mem::take(&mut self.keys[at].stage);
        let (Stage::Step { write, .. } | Stage::Result { write, .. }) = &stage else {
            return;
        };
        // `ObjectWriter::look`: a refusal counts only for the Service as it was planned on.
        let (is_there, answer) = match answer {
            Some(Answer::Written(version)) => {
                state.leader.written(write, version);
                if write.patch.is_of_record() {
                    let planned = write.planned_on.service.arc();
                    let progress = &mut self.keys[at].progress;
                    progress.record_written(&write.patch.applied_to(planned, ""));
                }
                (true, answer)
            }
            Some(Answer::Conflict | Answer::Refused) => match self.read(model, state, at) {
                Some(live)
                    if answer == Some(Answer::Refused)
                        && live.version == write.planned_on.version =>
                {
                    (true, Some(Answer::Refused))
                }
                Some(_) => (true, Some(Answer::Conflict)),
                None => (false, answer),
            },
            Some(Answer::Gone) => (false, answer),
            None => (true, None),
        };
        let key = &mut self.keys[at];
        match stage {
            _ if !is_there => {
                if let Stage::Result { call, result, .. } = stage {
                    self.applied(model, state, at, &call, result, Ended::Gone);
                }
            }
            Stage::Step { write, then, .. } => match (answer, then) {
                (Some(Answer::Written(_)), Then::Ensure(ensure)) => {
                    self.ensure(model, state, at, &write.planned_on, ensure);
                }
                (Some(Answer::Written(_)), Then::Rest) => {}
                _ => key.is_due = true,
            },
            Stage::Result {
                call,
                result,
                requeue,
                ..
            } => match answer {
                Some(Answer::Written(_)) => {
                    self.applied(model, state, at, &call, result, Ended::WithWait(requeue));
                }
                Some(Answer::Conflict) => self.answered(model, state, at, call, result),
                _ => {
                    key.progress.not_written();
                    self.applied(
                        model,
                        state,
                        at,
                        &call,
                        result,
                        Ended::WithWait(Some(Requeue::BackOff)),
                    );
                }
            },
            _ => {}
        }
    }
}

pub(super) fn answer(call: LoadBalancerCall, disposition: Disposition) -> LoadBalancerAnswer {
    let has_address = call == LoadBalancerCall::Ensure && disposition == Disposition::Ready;
    let address = outrigger_core::service::Ingress {
        ip: "192.0.2.7".into(),
        ..Default::default()
    };
    let raw = RawAnswer {
        disposition: Some(disposition),
        ingress: has_address.then(|| vec![address]),
        ..RawAnswer::default()
    };
    raw.check(call, &ForbiddenAddresses::default())
        .expect("a legal answer")
}

/// The call had no answer: whether it worked is not known.
fn no_answer() -> Failure {
    Failure {
        class: ErrorClass::Unavailable,
        reason: "".into(),
        message: "".into(),
        effects: Effects::default(),
    }
}
